"""``fw.Live``: a scheduler in production. It decides from measurements; nothing is simulated."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from fedwave.errors import FedwaveError, as_int, did_you_mean, is_list, is_number, is_whole, plural, short_repr
from fedwave.files.archive import Groups, load_archive, refusing, save_archive
from fedwave.network.devices import DEVICE_COLUMNS, Device, DeviceTable
from fedwave.network.network import Network, check_network
from fedwave.parts.serialize import pack, unpack
from fedwave.rng import Draws
from fedwave.schedulers.base import Scheduler, checked_decision
from fedwave.schedulers.base import scheduler as find_scheduler
from fedwave.simulation import SchedulerLike, observation
from fedwave.types import Array, BoolArray, FloatArray, NetworkState, WorldRound, checked_state, freeze

_FORMAT = "live scheduler 1"
_MOST_SHARDS = 2**53  # a whole number up to here is exact as a float
_LARGEST_DB = 70  # an SNR beyond looks like another unit
Numbers = Mapping[str, float]


class Live:
    """A scheduler in production: it is told what was measured, and says who transmits.

    ``network`` describes the devices, the slots and the radio, ``scheduler`` is a name or an object as in ``simulate``.
    Devices are called by the names of the device table, or by their numbers from "1" if it has none. Each round has
    two calls: ``choose``, and ``delivered`` for the uploads that arrived. Given the numbers of a simulated world, a
    Live picks the same devices as ``fw.simulate``.

    >>> import fedwave as fw
    >>> net = fw.Network([fw.Device(1, 100, name="gate"), fw.Device(3, 300, name="mast")], slots=1)
    >>> live = fw.Live(net, "lagrangian-bayes")
    >>> live.choose(snr_db={"gate": 21.5, "mast": 4.0}, waiting={"gate": 0, "mast": 7})
    ['mast']
    >>> live.delivered({"mast": 9})  # the upload brought 9 shards; {} if no upload arrived
    >>> live
    Live lagrangian-bayes: 2 devices, W = 1, 1 round
    """

    def __init__(self, network: Network, scheduler: SchedulerLike, seed: int = 0) -> None:
        check_network(network)
        self.network, self.seed = network, as_int("seed", seed, 0)
        self.scheduler = find_scheduler(scheduler)
        name = self.scheduler.name
        if self.scheduler.ideal or {"learner", "labels"} & self.scheduler.needs:
            lacks = "its uploads never fail" if self.scheduler.ideal else "it looks at models or labels"
            raise FedwaveError(f"scheduler {name!r} cannot run live: {lacks}. Choose another one.")
        if not isinstance(network.slots, int):
            raise FedwaveError(f"slots is {short_repr(network.slots)}, must be one W: a live run has no last round.")
        self.names = network.table.name or tuple(str(u + 1) for u in range(network.size))
        self.round = 0  # the last one that was chosen for
        self._at = {one: u for u, one in enumerate(self.names)}
        # A device is known to be away only because it does not report; it continues to count its data.
        problem = network.problem(1)
        self._problem = replace(problem, arrivals_while_away=problem.arrivals_while_away or "kept")
        self._state = checked_state(f"scheduler {name!r}: the state from start", self.scheduler.start(self._problem), 1)
        freeze(self._state)
        self._counts = NetworkState.initial(1, network.size)
        self._chosen: tuple[str, ...] | None = None  # of a round whose uploads have not been reported
        self._draws = Draws(self.seed, [0])

    def choose(
        self,
        *,
        snr_db: Numbers | None = None,
        snr: Numbers | None = None,
        waiting: Numbers | None = None,
        available: Mapping[str, bool] | Iterable[str] | None = None,
    ) -> list[str]:
        """Begins a round, and returns the names of the devices that transmit in it.

        Parameters, each by device name:

        * ``snr_db``, or ``snr`` (linear): measured in this round. A device without a value, or with NaN or None, is
          not picked.
        * ``waiting``: shards that wait at each device, for schedulers that observe them. A device without a value is
          not picked.
        * ``available``: True or False for each device, or the names of those that are there; None: all are.
        """
        if self._chosen is not None:
            raise FedwaveError(
                f"the uploads of round {self.round} are not known: call delivered({{...}}) first, with {{}} if none "
                "arrived."
            )
        sees_channel, sees_backlog = ("channel" in self.scheduler.needs), ("backlog" in self.scheduler.needs)
        if (snr is not None and snr_db is not None) or (sees_channel and snr is None and snr_db is None):
            raise FedwaveError("choose needs either snr_db or snr (linear), a number for each device that was heard.")
        if sees_backlog and waiting is None:
            raise FedwaveError(f"scheduler {self.scheduler.name!r} observes backlogs: give waiting={{name: shards}}.")
        there = self._there(available)
        linear = np.zeros(self.network.size)
        if snr is not None or snr_db is not None:
            linear = self._linear_snr(snr, snr_db)
            there &= ~np.isnan(linear)
        counts = self._counts
        if waiting is not None:
            held = self._numbers("waiting", waiting, whole=True)
            there &= ~np.isnan(held)
            counts = replace(counts, waiting=self._backlogs(held))
        heard = np.where(np.isnan(linear), 0.0, linear)[None]
        net = self.network
        world = WorldRound(
            self.round + 1,
            heard / net.mean_snr,
            heard,
            net.success.expected(heard, net.mean_snr, net.fading),
            luck=np.zeros_like(heard),  # nobody sees it
            later_snr=None,
            arrivals=np.zeros(heard.shape, np.int64),
            heard=None,
            available=there[None],
        )
        seen = observation(self.scheduler, net, self._problem, world, counts, {})
        decision, state = self.scheduler.decide({**self._state}, seen, self._draws.at(world.round))
        picked = checked_decision(decision, seen, self.scheduler).transmits[0]
        freeze(state)
        self._state, self._counts, self.round = state, counts, world.round
        self._chosen = tuple(self.names[u] for u in np.flatnonzero(picked))
        return list(self._chosen)

    def delivered(self, shards: Numbers) -> None:
        """Ends a round: the uploads that arrived, and the shards that each brought, by device name."""
        if self._chosen is None:
            raise FedwaveError("no round has begun: call choose(...) first.")
        brought = self._numbers("delivered", shards, whole=True)
        arrived = ~np.isnan(brought)
        before = self._counts
        for u in np.flatnonzero(arrived):
            if self.names[u] not in self._chosen:
                raise FedwaveError(
                    f"device {self.names[u]!r} was not chosen in round {self.round}: its upload cannot be delivered. "
                    f"Chosen: {', '.join(self._chosen) or 'nobody'}."
                )
            if brought[u] < before.waiting[0, u]:
                _warn(
                    f"device {self.names[u]!r} delivered {brought[u]:g} shards although {before.waiting[0, u]} waited: "
                    "was it restarted?"
                )
        reported = np.where(arrived, brought, 0).astype(np.int64)[None]
        self._counts = NetworkState(
            waiting=np.where(arrived, 0, before.waiting),
            learned=before.learned + reported,
            lost=before.lost,
            delay=1 + before.delay * ~arrived,
            delivered=arrived[None],
            reported=reported,
        )
        self._chosen = None

    def with_devices(self, devices: DeviceTable | Iterable[Device | Mapping[str, Any]]) -> Live:
        """The same scheduler with more devices, which have new names; it knows nothing of them yet.

        A device that leaves is not removed: do not report it, or say that it is not available.
        """
        if self._chosen is not None:
            raise FedwaveError(f"round {self.round} is open: call delivered({{...}}) before devices are added.")
        more = DeviceTable.of(devices)
        own = dict(self.network.table.columns)
        if own.keys() != dict(more.columns).keys():
            raise FedwaveError(
                f"the network has the columns of its own {sorted(own)}, the new devices {sorted(dict(more.columns))}: "
                "give mappings with the same columns, such as {'rate': 1, 'snr_db': 9, 'name': 'new', 'battery_j': 5}."
            )
        columns = {one: np.append(self.network.table.column(one), more.column(one)) for one in (*DEVICE_COLUMNS, *own)}
        mine = {one: columns.pop(one) for one in own}
        new = more.name or tuple(str(self.network.size + k + 1) for k in range(len(more)))
        table = DeviceTable(**columns, name=(*self.names, *new), columns=mine)
        other = Live(self.network.replace(devices=table), self.scheduler, self.seed)
        other.round = self.round
        other._state = {
            name: _widened(f"state {name!r} of {self.scheduler.name}", self._state[name], fresh)
            for name, fresh in other._state.items()
        }
        old, fresh = (asdict(one._counts) for one in (self, other))
        other._counts = NetworkState(**{one: _widened(one, old[one], fresh[one]) for one in old})
        freeze(other._state)
        return other

    def save(self, path: str | Path) -> Path:
        """Writes everything that the next round needs to ``path`` (.npz), whole or not at all."""
        constants: dict[str, Array] = {}
        header = {
            "setup": pack([self.network, self.scheduler], constants, "setup"),
            "seed": str(self.seed),
            "round": self.round,
            "chosen": self._chosen,
        }
        groups: Groups = {"constants": constants, "state": self._state, "counts": asdict(self._counts)}
        return save_archive(path, "a live scheduler", _FORMAT, header, groups)

    @classmethod
    def load(cls, path: str | Path, scheduler: Scheduler | None = None) -> Live:
        """Reads what ``save`` wrote.

        A scheduler of your own must be registered first, or given, as one that ``fw.scheduler`` makes of a function.

        >>> import fedwave as fw, tempfile
        >>> live = fw.Live(fw.random_network(5, slots=1), "age")
        >>> _ = live.choose(snr_db={"1": 3.0, "2": 9.5})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     again = fw.Live.load(live.save(f"{folder}/live.npz"))
        >>> again.round, again.chosen == live.chosen
        (1, True)
        """
        header, groups = load_archive(path, "a live scheduler", _FORMAT)
        with refusing(str(path), _FORMAT):
            constants, state, counts = (groups.pop(name, {}) for name in ("constants", "state", "counts"))
            if groups:
                raise ValueError(f"it has arrays of other groups: {', '.join(groups)}")
            network, used = unpack(header["setup"][0], constants), header["setup"][1]
            if scheduler is None:
                scheduler = unpack(used, constants)
            elif scheduler.name != used["name"]:
                raise ValueError(f"it was saved with {used['name']!r}, not with {scheduler.name!r}")
            live = cls(network, scheduler, int(header["seed"]))
            live.round, chosen = as_int("round", header["round"], 0), header["chosen"]
            live._chosen = None if chosen is None else tuple(live.names[live._at[name]] for name in chosen)
            for fresh, found in ((live._state, state), (asdict(live._counts), counts)):
                if any(name not in found or found[name].ndim != array.ndim for name, array in fresh.items()):
                    raise ValueError("an array is missing or has other axes")
            live._state = checked_state(f"state of {scheduler.name}", state, 1)
            live._counts = NetworkState(**counts)
            freeze(live._state)
        return live

    @property
    def chosen(self) -> list[str] | None:
        """The devices that were chosen in the open round; None between rounds."""
        return None if self._chosen is None else list(self._chosen)

    @property
    def beliefs(self) -> dict[str, Array]:
        """The beliefs of a learning scheduler about each device, such as its rate ``theta``; empty for others."""
        return {name: array[0] for name, array in self.scheduler.beliefs(self._state).items()}

    def __repr__(self) -> str:
        size, w = plural(self.network.size, "device"), self.network.slots
        return f"Live {self.scheduler.name}: {size}, W = {w}, {plural(self.round, 'round')}"

    def _place(self, what: str, name: Any) -> int:
        if not (isinstance(name, str) and name in self._at):
            raise FedwaveError(f"{what} names a device {short_repr(name)}; {did_you_mean(str(name), self.names)}")
        return self._at[name]

    def _numbers(self, what: str, given: Any, whole: bool = False) -> FloatArray:
        """One number per device, NaN where there is none."""
        if not isinstance(given, Mapping):
            raise FedwaveError(f"{what} is {short_repr(given)}, must be a mapping of device names to numbers.")
        found = np.full(self.network.size, np.nan)
        for name, value in given.items():
            u = self._place(what, name)
            real = isinstance(value, Real)  # pandas.NA and arrays cannot be compared
            if value is None or (real and value != value):
                continue
            if whole and not (is_whole(value) and 0 <= value <= _MOST_SHARDS):
                raise FedwaveError(f"{what} of {name!r} is {short_repr(value)}, must be a whole number >= 0, or None.")
            if not (is_number(value) or (real and value == -np.inf)):
                raise FedwaveError(f"{what} of {name!r} is {short_repr(value)}, must be a number, or None.")
            found[u] = value
        return found

    def _linear_snr(self, snr: Numbers | None, snr_db: Numbers | None) -> FloatArray:
        """The linear SNR of each device, NaN where none was measured; warns if it looks like another unit."""
        with np.errstate(over="ignore"):  # what overflows is refused below
            linear = self._numbers("snr", snr) if snr is not None else 10 ** (self._numbers("snr_db", snr_db) / 10)
        if (linear < 0).any() or np.isinf(linear).any():
            wrong = int(np.argmax((linear < 0) | np.isinf(linear)))
            hint = " Is this dB? Then it is snr_db." if snr is not None else ""
            raise FedwaveError(
                f"the SNR of {self.names[wrong]!r} is {linear[wrong]:g}, must be a finite ratio >= 0.{hint}"
            )
        decibels = 10 * np.log10(linear, where=linear > 0, out=np.zeros_like(linear))
        if np.abs(decibels).max() > _LARGEST_DB:
            u = int(np.argmax(np.abs(decibels)))
            _warn(
                f"the SNR of {self.names[u]!r} is {decibels[u]:.0f} dB: is it RSRP in dBm, or a linear ratio?", above=1
            )
        return linear

    def _there(self, available: Any) -> BoolArray:
        there = np.ones(self.network.size, dtype=np.bool_)
        if available is None:
            return there
        if not (isinstance(available, Mapping) or is_list(available)):
            raise FedwaveError(
                f"available is {short_repr(available)}, must map device names to True or False, or list the names of "
                "those that are there."
            )
        if isinstance(available, Mapping):
            for name, is_there in available.items():
                if not (is_whole(is_there) or isinstance(is_there, np.bool_)) or is_there not in (0, 1):
                    raise FedwaveError(f"available of {name!r} is {short_repr(is_there)}, must be True or False.")
                there[self._place("available", name)] = bool(is_there)
            return there
        there[:] = False
        there[[self._place("available", name) for name in available]] = True
        return there

    def _backlogs(self, held: FloatArray) -> Array:
        """n of every device ``[1, U]``: as reported, and of one that did not report as before."""
        before = self._counts.waiting[0]
        waiting = np.where(np.isnan(held), before, held).astype(np.int64)
        for u in np.flatnonzero((waiting < before) & ~self._counts.delivered[0])[:1]:
            _warn(
                f"the backlog of {self.names[u]!r} fell from {before[u]} to {waiting[u]} without a delivery: was it "
                "restarted?",
                above=1,
            )
        return waiting[None]


def _widened(what: str, old: Array, fresh: Array) -> Array:
    """The rows of an array by device, and behind them those of new devices; another array stays as it is."""
    if old.ndim < 2 or fresh.shape[1] <= old.shape[1]:
        return old
    if old.shape[2:] != fresh.shape[2:]:
        raise FedwaveError(f"{what} is not an array by device: begin a new Live with all devices.")
    wide = fresh.copy()
    wide[:, : old.shape[1]] = old
    return wide


def _warn(sentence: str, above: int = 0) -> None:
    """Warns at the line of the user; ``above`` counts the functions between it and a method that the user called."""
    warnings.warn(sentence, stacklevel=3 + above)
