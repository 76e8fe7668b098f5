"""The network: devices, slots, radio and arrivals. It is a description without randomness."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field, fields
from functools import cached_property
from html import escape
from numbers import Real
from typing import Any

import numpy as np

from fedwave.errors import FedwaveError, as_int, capped_len, did_you_mean, is_list, is_number, plural, short_repr
from fedwave.memory import check_memory
from fedwave.network.arrivals import Arrivals, Poisson
from fedwave.network.devices import COLUMNS, Device, DeviceTable
from fedwave.network.fading import Fading, Rayleigh, mean_snr
from fedwave.network.success import SuccessModel, Turbo
from fedwave.parts import registry
from fedwave.types import Array, FloatArray, Problem, checked, freeze

_UNLESS_GIVEN: Any = object()
_OF_ROUND = 16  # bytes: its W in a list and in a tuple
_LARGEST_GAMMA = 1e9  # beyond, a score that is added up or squared could become infinite


@dataclass(frozen=True, eq=False)
class NetworkPlanning:
    """Planning (types.py) for one network."""

    fading: Fading
    success: SuccessModel
    arrivals: Arrivals
    mean_snr: FloatArray  # [U]

    @property
    def independent(self) -> bool:
        return self.fading.independent

    def success_levels(self, mean_snr: FloatArray, count: int) -> FloatArray:
        """p in the middle of each of ``count`` equally likely ranges of the gain."""
        gains = self.fading.sum_quantiles(1, (np.arange(count) + 0.5) / count)
        mean = np.asarray(mean_snr, dtype=np.float64)[..., None]
        return self.success.expected(mean * gains, mean, self.fading)

    def arrival_chances(self, rates: FloatArray, most: int) -> FloatArray:
        return self.arrivals.chances(np.asarray(rates, dtype=np.float64), most)


@dataclass(frozen=True, eq=False, repr=False)
class Network:
    """One access point and its devices.

    >>> net = Network(devices=[Device(rate=1, distance_m=100), Device(rate=5, distance_m=400)], slots=1)
    >>> net.size
    2
    >>> net
    Network: 2 devices, W = 1, 6 shards a round, gamma = 0.01
      fading Rayleigh(), success Turbo(midpoint_db=-1.647, slope=7.468, blocks=1), arrivals Poisson()
    """

    devices: DeviceTable | Iterable[Device | Mapping[str, Any]]
    # W, or one W per round; unless given: 5, or all devices if there are fewer.
    slots: int | Sequence[int] = _UNLESS_GIVEN
    gamma: float = 0.01  # the cost of a shard that waits
    fading: Fading = field(default_factory=Rayleigh)  # or a name with parameters: "rician:k_factor=6"
    success: SuccessModel = field(default_factory=Turbo)
    arrivals: Arrivals = field(default_factory=Poisson)
    noise_dbm: float = -96.0
    pathloss_intercept_db: float = 128.1
    pathloss_slope_db: float = 37.6

    def __post_init__(self) -> None:
        object.__setattr__(self, "devices", DeviceTable.of(self.devices))
        slots = min(5, self.size) if self.slots is _UNLESS_GIVEN else self.slots
        object.__setattr__(self, "slots", checked_slots(slots, self.size))
        if not (is_number(self.gamma) and self.gamma >= 0):
            raise FedwaveError(f"gamma is {self.gamma}, must be a number >= 0.")
        if self.gamma > _LARGEST_GAMMA:
            raise FedwaveError(
                f"gamma is {self.gamma:g}, must be at most {_LARGEST_GAMMA:g}: the score would overflow."
            )
        for name, kind in (("fading", Fading), ("success", SuccessModel), ("arrivals", Arrivals)):
            value = getattr(self, name)
            if isinstance(value, (str, Mapping)):  # a name, with parameters
                value = registry.build(name, value)
                object.__setattr__(self, name, value)
            if not isinstance(value, kind):
                raise FedwaveError(f"{name} is {value!r}, must be a {kind.__name__} object.")
        for name in ("noise_dbm", "pathloss_intercept_db", "pathloss_slope_db"):
            if not is_number(getattr(self, name)):
                raise FedwaveError(f"{name} is {getattr(self, name)}, must be a number.")
        self._check_mean_snr()
        if self.success.later_tries:  # fails here instead of in the middle of a run
            self.fading.fresh(np.random.default_rng(0), (1,))

    @property
    def table(self) -> DeviceTable:
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
        """Mean linear SNR (SINR), ``[U]``."""
        t = self.table
        out = mean_snr(
            np.asarray(t.distance_m),
            np.asarray(t.tx_power_dbm),
            self.noise_dbm,
            np.asarray(t.interference_dbm),
            self.pathloss_intercept_db,
            self.pathloss_slope_db,
        )
        freeze(out)
        return out

    @property
    def chance(self) -> tuple[str, ...]:
        """What instances differ in by chance: "gains", "arrivals", "uploads" (luck at a given SNR), "broadcasts"."""
        missing = np.asarray(self.table.miss_probability)
        differs = {
            "gains": not self.fading.shared,
            "arrivals": not self.arrivals.shared,
            "uploads": not self.success.certain,
            "broadcasts": bool(((missing > 0) & (missing < 1)).any()),
        }
        return tuple(name for name, does in differs.items() if does)

    @cached_property
    def planning(self) -> NetworkPlanning:
        """The probabilities of the coming rounds, for schedulers that plan ahead."""
        return NetworkPlanning(self.fading, self.success, self.arrivals, self.mean_snr)

    def __repr__(self) -> str:
        w = self.slots if isinstance(self.slots, int) else f"{len(self.slots)} values, one a round"
        devices = "1 device" if self.size == 1 else f"{self.size} devices"
        return (
            f"Network: {devices}, W = {w}, {self.rates.sum():g} shards a round, gamma = {self.gamma:g}\n"
            f"  fading {self.fading!r}, success {self.success!r}, arrivals {self.arrivals!r}"
            f"{self.table.others()}"
        )

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>{self.table._repr_html_()}"

    def _check_mean_snr(self) -> None:
        with np.errstate(all="ignore"):  # what overflows is reported below
            decibels = 10 * np.log10(self.mean_snr)
        fine = np.abs(decibels) <= 300
        if not np.all(fine):
            at = int(np.argmin(fine))
            raise FedwaveError(
                f"the mean SNR of device {at + 1} is {decibels[at]:g} dB, must lie between -300 and 300 dB: "
                "check its distance and powers, the noise and the path loss."
            )

    def slots_in(self, round_: int) -> int:
        """W of one round."""
        return self.slots if isinstance(self.slots, int) else self.slots[round_ - 1]

    def problem(self, instances: int) -> Problem:
        """What schedulers know before the first round."""
        return Problem(instances, self.size, self.arrivals.distribution, self.fading.quartiles())

    def replace(self, **changes: Any) -> Network:
        """A copy with any field, or any column of the device table, replaced."""
        own = {f.name for f in fields(self)}
        for name in changes:
            if name not in own and name not in COLUMNS:
                raise FedwaveError(f"a network has no field {name!r}; {did_you_mean(name, own | set(COLUMNS))}")
        values = {name: getattr(self, name) for name in own}
        values |= {k: v for k, v in changes.items() if k in own}
        columns = {k: v for k, v in changes.items() if k in COLUMNS}
        if columns:
            values["devices"] = DeviceTable.of(values["devices"]).replace(**columns)
        return Network(**values)

    def check_run(self, rounds: int, ids: Array) -> None:
        """Refuse a run that is longer than the given slots or a record."""
        if not isinstance(self.slots, int) and len(self.slots) < rounds:
            raise FedwaveError(
                f"slots are given for {len(self.slots)} rounds but the run has {rounds}: "
                "give more, or run fewer rounds."
            )
        for part in (self.fading, self.arrivals):
            part.check_run(rounds, self.size, int(ids.max()))


def paper_network(**changes: Any) -> Network:
    """The 25 devices of Lee & Lee's experiments, W = 5; any field or device column can be replaced.

    >>> float(paper_network().rates.sum())
    67.0
    >>> paper_network(slots=3, buffer_limit=20).slots
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
    """Devices spread at random: rates of the paper's mix (1, 3, 5, 10), distances of 100 to 500 m.

    ``slots`` (W) is a fifth of the devices unless it is given, as in the paper's network. The seed draws the network
    itself; it has nothing to do with the seed of a run.

    >>> random_network(1000).slots
    200
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
    """Refuse what is no network, before an attribute of it is missing."""
    if not isinstance(network, Network):
        raise FedwaveError(f"network is {short_repr(network)}, must be a Network, such as paper_network().")


def checked_slots(slots: Any, devices: int) -> int | tuple[int, ...]:
    """W as an int, or as one int per round."""
    if isinstance(slots, np.ndarray):
        slots = slots.tolist()
    single = isinstance(slots, Real) or not is_list(slots)
    if not single and isinstance(slots, Sized):
        rounds = capped_len(slots)
        need = float(_OF_ROUND) * rounds
        check_memory(f"slots (W) of {plural(rounds, 'round')}", need, "give fewer, or one W")
    per_round = [slots] if single else list(slots)
    if not per_round:
        raise FedwaveError("slots is an empty list: give W as one number, or one per round.")
    least = 1 if single else 0  # a single round may have no slot, a network may not
    for w in per_round:
        if as_int("slots (W)", w, least) > devices:
            raise FedwaveError(f"slots (W) is {w} but there are only {devices} devices: W must not exceed them.")
    return int(slots) if single else tuple(int(w) for w in per_round)
