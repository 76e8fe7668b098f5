"""The network: devices, slots, radio and arrivals. It describes distributions; world.py draws from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from html import escape
from numbers import Real
from typing import Any

import numpy as np

from fedwave.errors import FedwaveError, as_int, check_number, did_you_mean, is_list, plural, short_repr
from fedwave.memory import check_memory
from fedwave.network.arrivals import Arrivals, Poisson
from fedwave.network.availability import Always, Availability
from fedwave.network.devices import DEVICE_COLUMNS, Device, DeviceTable
from fedwave.network.fading import Fading, Rayleigh
from fedwave.network.plausible import warn_if_implausible
from fedwave.network.random_part import RandomPart
from fedwave.network.success import SuccessModel, Turbo
from fedwave.parts import registry
from fedwave.types import Array, FloatArray, Problem, checked, freeze

# The defaults. A frozen part can be shared.
_FADING = Rayleigh()
_SUCCESS = Turbo()
_ARRIVALS = Poisson()
_ALWAYS = Always()
_DEFAULT_SLOTS = 5
_LARGEST_GAMMA = 1e9  # beyond, a score that is added up or squared could become infinite


@dataclass(frozen=True, eq=False)
class NetworkPlanning:
    """The probabilities of the coming rounds of one network: implements ``Planning`` (types.py)."""

    fading: Fading
    success: SuccessModel
    arrivals: Arrivals
    mean_snr: FloatArray  # [U]

    @property
    def independent(self) -> bool:
        return self.fading.independent

    def success_levels(self, mean_snr: FloatArray, count: int) -> FloatArray:
        """p in the middle of each of ``count`` equally likely ranges of the gain, ``[..., count]``."""
        gains = self.fading.sum_quantiles(1, (np.arange(count) + 0.5) / count)
        mean = np.asarray(mean_snr, dtype=np.float64)[..., None]
        return self.success.expected(mean * gains, mean, self.fading)

    def arrival_chances(self, rates: FloatArray, most: int) -> FloatArray:
        return self.arrivals.chances(np.asarray(rates, dtype=np.float64), most)


@dataclass(frozen=True, eq=False, repr=False)
class Network:
    """One access point and its devices. In every round at most W devices transmit.

    The SNR of a device in a round is h times its mean SNR, where h is the gain that the fading draws. In dB the mean is

        tx_power_dbm - (pathloss_intercept_db + pathloss_slope_db log10(distance_m / 1000)) - noise_dbm,

    or the ``snr_db`` of the device, and interference adds to the noise. The upload arrives with the probability p that
    the success model gives this SNR.
    The score of a round is F = (shards delivered) - gamma (shards that wait after it).

    Parameters:

    * ``devices``: a ``DeviceTable``, or a list of ``Device`` records or of mappings with the same fields
    * ``slots``: W, or a list with one W per round; None: 5, or all devices if there are fewer
    * ``gamma``: the cost of a waiting shard per round, >= 0
    * ``fading``, ``success``, ``arrivals``: objects, or texts such as "rician:k_factor=6"
    * ``noise_dbm``: noise power in dBm
    * ``pathloss_intercept_db``, ``pathloss_slope_db``: path loss at 1 km, and its rise per tenfold distance, in dB
    * ``availability``: in which rounds devices are there, an object or a text such as "on-off:mean_on=20,mean_off=5"

    >>> import fedwave as fw
    >>> import numpy as np
    >>> net = fw.Network([fw.Device(rate=1, distance_m=100), fw.Device(rate=5, distance_m=400)], slots=1)
    >>> net
    Network: 2 devices, W = 1, 6 shards a round, gamma = 0.01
      fading Rayleigh(), success Turbo(midpoint_db=-1.647, slope=7.468, blocks=1), arrivals Poisson()
    >>> (10 * np.log10(net.mean_snr)).round(1)  # in dB
    array([28.5,  5.9])
    >>> net.replace(fading="rician:k_factor=6", tx_power_dbm=20).fading
    Rician(k_factor=6)
    """

    devices: DeviceTable | Iterable[Device | Mapping[str, Any]]
    slots: int | Sequence[int] = None  # type: ignore[assignment]  # __post_init__ replaces None
    gamma: float = 0.01
    fading: Fading = _FADING
    success: SuccessModel = _SUCCESS
    arrivals: Arrivals = _ARRIVALS
    noise_dbm: float = -96.0
    pathloss_intercept_db: float = 128.1
    pathloss_slope_db: float = 37.6
    availability: Availability = _ALWAYS

    def __post_init__(self) -> None:
        object.__setattr__(self, "devices", DeviceTable.of(self.devices))
        slots = min(_DEFAULT_SLOTS, self.size) if self.slots is None else self.slots
        object.__setattr__(self, "slots", _checked_slots(slots, self.size))
        check_number("gamma", self.gamma, ">= 0", f"<= {_LARGEST_GAMMA:g}", note=": above, the score would overflow")
        for name, base, example in _PARTS:
            value = getattr(self, name)
            if isinstance(value, (str, Mapping)):
                value = registry.build(name, value)
                object.__setattr__(self, name, value)
            if isinstance(value, RandomPart):
                value = value.for_devices(self.table.name, self.size)
                object.__setattr__(self, name, value)
            if not isinstance(value, base):
                raise FedwaveError(
                    f"{name} is {value!r}, must be a {base.__name__} object or a name, such as {example!r}."
                )
            try:
                hash(value)  # plans for a network are cached by its parts
            except TypeError as error:
                raise FedwaveError(
                    f"{name} is a {type(value).__name__} that cannot be hashed ({error}): write "
                    "@dataclass(frozen=True) above its class, with numbers, texts or tuples as parameters."
                ) from None
        for name, unit in (("noise_dbm", "dBm"), ("pathloss_intercept_db", "dB"), ("pathloss_slope_db", "dB")):
            check_number(name, getattr(self, name), note=f" ({unit})")
        self._check_mean_snr()
        warn_if_implausible(self)
        if self.success.later_tries:  # a fading without new tries fails here instead of in the middle of a run
            self.fading.fresh(np.random.default_rng(0), (1,))

    @property
    def table(self) -> DeviceTable:
        """The devices as a DeviceTable."""
        assert isinstance(self.devices, DeviceTable)  # since __post_init__
        return self.devices

    @property
    def size(self) -> int:
        """U, the number of devices."""
        return len(self.table)

    @cached_property
    def rates(self) -> FloatArray:
        """theta: true mean arrivals per round, ``[U]``."""
        rates = self.arrivals.mean_rates(np.asarray(self.table.rate))
        rates = checked(self.arrivals, "mean rates", rates, (self.size,))
        freeze(rates)
        return rates

    @cached_property
    def mean_snr(self) -> FloatArray:
        """The mean SNR of each device (SINR where there is interference), linear, ``[U]``; as measured, if it was."""
        if self.fading.absolute:
            measured = checked(self.fading, "mean SNR", self.fading.mean_snr(), (self.size,))
            freeze(measured)
            return measured
        snr_db, distance_m = np.asarray(self.table.snr_db), np.asarray(self.table.distance_m)
        tx_power_dbm, noise_mw = np.asarray(self.table.tx_power_dbm), 10 ** (np.float64(self.noise_dbm) / 10)
        loss_db = self.pathloss_intercept_db + self.pathloss_slope_db * np.log10(distance_m / 1000.0)
        noise = noise_mw + 10 ** (np.asarray(self.table.interference_dbm) / 10)
        out: FloatArray = 10 ** ((tx_power_dbm - loss_db) / 10) / noise
        missing = np.isnan(distance_m) & np.isnan(snr_db)
        if missing.any():
            raise FedwaveError(
                f"device {int(np.argmax(missing)) + 1} has neither a distance_m nor an snr_db, both are nan: give one."
            )
        if not np.isnan(snr_db).all():
            out = np.where(np.isnan(snr_db), out, 10 ** (snr_db / 10) * (noise_mw / noise))
        freeze(out)
        return out

    @property
    def random_parts(self) -> tuple[str, ...]:
        """The parts of the world that differ at random between instances.

        Any of "gains", "arrivals", "uploads" (at a given SNR), "broadcasts" and "availability".
        """
        missing = np.asarray(self.table.miss_probability)
        differs = {
            "gains": not self.fading.shared,
            "arrivals": not self.arrivals.shared,
            "uploads": not self.success.certain,
            "broadcasts": bool(((missing > 0) & (missing < 1)).any()),
            "availability": not self.availability.shared,
        }
        return tuple(name for name, does in differs.items() if does)

    @cached_property
    def planning(self) -> NetworkPlanning:
        """The probabilities of the coming rounds, for schedulers that plan ahead."""
        return NetworkPlanning(self.fading, self.success, self.arrivals, self.mean_snr)

    def __repr__(self) -> str:
        w = self.slots if isinstance(self.slots, int) else f"{len(self.slots)} values, one a round"
        away = "" if self.always_available else f"\n  availability {self.availability!r}"
        return (
            f"Network: {plural(self.size, 'device')}, W = {w}, {self.rates.sum():g} shards a round, "
            f"gamma = {self.gamma:g}\n"
            f"  fading {self.fading!r}, success {self.success!r}, arrivals {self.arrivals!r}"
            f"{away}{self.table.others()}"
        )

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>{self.table._repr_html_()}"

    def _check_mean_snr(self) -> None:
        with np.errstate(all="ignore"):  # an overflow is reported below
            decibels = 10 * np.log10(self.mean_snr)
        fine = np.abs(decibels) <= 300
        if not np.all(fine):
            at = int(np.argmin(fine))
            raise FedwaveError(
                f"the mean SNR of device {at + 1} is {decibels[at]:g} dB, must lie between -300 and 300 dB: "
                "check distance_m, tx_power_dbm, interference_dbm, noise_dbm, pathloss_intercept_db, pathloss_slope_db "
                "and their units."
            )

    @property
    def always_available(self) -> bool:
        """Are all devices there in every round?"""
        return isinstance(self.availability, Always)

    def slots_in(self, round_: int) -> int:
        """W of one round."""
        return self.slots if isinstance(self.slots, int) else self.slots[round_ - 1]

    def problem(self, instances: int) -> Problem:
        """The Problem that every scheduler is given before the first round."""
        away = "" if self.always_available else "kept" if self.availability.arrivals_while_away else "lost"
        quartiles = self.fading.quartiles()
        return Problem(
            instances, self.size, self.arrivals.distribution, quartiles, away, tuple(dict(self.table.columns).items())
        )

    def replace(self, **changes: Any) -> Network:
        """A copy with any field, or any column of the device table, replaced."""
        own = {f.name for f in fields(self)}
        for name in changes:
            if name not in own and name not in DEVICE_COLUMNS:
                raise FedwaveError(f"a network has no field {name!r}; {did_you_mean(name, own | set(DEVICE_COLUMNS))}")
        values = {name: changes.get(name, getattr(self, name)) for name in own}
        columns = {name: value for name, value in changes.items() if name not in own}
        if columns:
            values["devices"] = DeviceTable.of(values["devices"]).replace(**columns)
        return Network(**values)

    def check_run(self, rounds: int, ids: Array) -> None:
        """Raises FedwaveError if the slots or a record do not cover a run of these rounds and instances."""
        if not isinstance(self.slots, int) and len(self.slots) < rounds:
            raise FedwaveError(
                f"slots are given for {len(self.slots)} rounds but the run has {rounds}: "
                "give more, or run fewer rounds."
            )
        for part in (self.fading, self.arrivals, self.availability):
            part.check_run(rounds, self.size, int(ids.max()))


_PARTS = (
    ("fading", Fading, "rayleigh"),
    ("success", SuccessModel, "turbo"),
    ("arrivals", Arrivals, "poisson"),
    ("availability", Availability, "always"),
)


def paper_network(**changes: Any) -> Network:
    """The 25 devices of Lee & Lee's experiments, W = 5.

    Three devices at each of 100, 200, 300, 400 and 500 m receive 1 shard a round, one at each of 300, 350, 400 and
    450 m receives 3, another there 5, and one at 400 m and one at 450 m receive 10. ``changes`` replace fields of the
    Network or columns of its device table.

    >>> import fedwave as fw
    >>> fw.paper_network()
    Network: 25 devices, W = 5, 67 shards a round, gamma = 0.01
      fading Rayleigh(), success Turbo(midpoint_db=-1.647, slope=7.468, blocks=1), arrivals Poisson()
    >>> fw.paper_network(slots=3, buffer_limit=20).slots
    3
    """
    near_and_far = np.repeat([100.0, 200.0, 300.0, 400.0, 500.0], 3)
    middle = np.array([300.0, 350.0, 400.0, 450.0])
    distance = np.concatenate([near_and_far, middle, middle, [400.0, 450.0]])
    rate = np.repeat([1.0, 3.0, 5.0, 10.0], [15, 4, 4, 2])
    return Network(devices=DeviceTable(rate=rate, distance_m=distance), slots=5).replace(**changes)


def random_network(
    devices: int = 100, slots: int | Sequence[int] | None = None, seed: int = 0, **changes: Any
) -> Network:
    """A network of devices with random rates and distances.

    Distances are uniform from 100 to 500 m; rates are 1, 3, 5 and 10 shards a round with probabilities 0.6, 0.16, 0.16
    and 0.08, as in the paper's network.

    Parameters:

    * ``devices``: their number, U
    * ``slots``: W, or a list with one W per round; None: a fifth of the devices
    * ``seed``: of rates and distances only; a run has a seed of its own
    * ``changes``: fields of the Network or columns of its device table to replace

    >>> import fedwave as fw
    >>> net = fw.random_network(1000, gamma=0.1)
    >>> net.size, net.slots, net.gamma
    (1000, 200, 0.1)
    """
    devices = as_int("the number of devices", devices, 1)
    check_memory(f"a network of {plural(devices, 'device')}", 100.0 * devices, "lower devices")
    rng = np.random.default_rng(as_int("seed", seed, 0))
    rate = rng.choice([1.0, 3.0, 5.0, 10.0], size=devices, p=[0.6, 0.16, 0.16, 0.08])
    distance = rng.uniform(100.0, 500.0, size=devices)
    table = DeviceTable(rate=rate, distance_m=distance)
    w = max(1, devices // 5) if slots is None else slots
    return Network(devices=table, slots=w).replace(**changes)


def check_network(network: Any) -> None:
    """Raises FedwaveError unless it is a Network."""
    if not isinstance(network, Network):
        raise FedwaveError(f"network is {short_repr(network)}, must be a Network, such as paper_network().")


def _checked_slots(slots: Any, devices: int) -> int | tuple[int, ...]:
    """W as an int, or as one int per round."""
    if isinstance(slots, np.ndarray):
        slots = slots.tolist()
    single = isinstance(slots, Real) or not is_list(slots)
    per_round = [slots] if single else list(slots)
    if not per_round:
        raise FedwaveError("slots is an empty list: give W as one number, or one per round.")
    least = 1 if single else 0  # a single round may have no slot, a network may not
    for w in per_round:
        if as_int("slots (W)", w, least) > devices:
            raise FedwaveError(f"slots (W) is {w} but there are only {devices} devices: W must not exceed them.")
    return int(slots) if single else tuple(int(w) for w in per_round)
