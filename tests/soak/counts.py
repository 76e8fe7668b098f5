"""What happened in a soak, as counts: printed while it runs, as a table at its end, and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FAULTS = (
    "traceback",
    "hang",
    "wrong exit status or sentence",
    "wrong results",
    "unsound folder",
    "file left over",
    "process left over",
    "somebody else's file touched",
)
RESUMES = ("worked", "refused as in use", "ended by a signal or a full disk", "failed")
SHOWN = 5  # faults that are kept in full


@dataclass
class Counts:
    """Counted so far."""

    cycles: Counter[str] = field(default_factory=Counter)  # by what was done
    signals: Counter[str] = field(default_factory=Counter)  # "SIGKILL of runner"
    early: int = 0  # signals that met Python's own start, where fedwave can answer nothing
    resumes: Counter[str] = field(default_factory=Counter)
    attempts: int = 0  # several resumers at once, counted as one
    full_disks: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    faulty_cycles: int = 0
    longest_wait: float = 0.0
    first_faults: list[dict[str, Any]] = field(default_factory=list)

    @property
    def kills(self) -> int:
        """Signals that end a process; a stop does not."""
        return sum(n for name, n in self.signals.items() if not name.startswith("SIGSTOP"))

    @property
    def cycle(self) -> int:
        return self.cycles.total()

    def fault(self, kind: str, detail: str) -> None:
        assert kind in FAULTS, kind
        self.faults[kind] += 1
        if sum(one["fault"] == kind for one in self.first_faults) < SHOWN:
            self.first_faults.append({"fault": kind, "cycle": self.cycle, "detail": detail[-1500:]})

    def line(self) -> str:
        """For one look a minute."""
        return (
            f"{self.cycle} cycles, {self.kills} kills, {self.signals.total() - self.kills} stops, "
            f"{self.resumes.total()} resumes, {self.full_disks} full disks, {self.faults.total()} faults"
        )

    def to_json(self, about: dict[str, Any]) -> dict[str, Any]:
        return {
            **about,
            "cycles": self.cycle,
            "cycles by kind": dict(sorted(self.cycles.items())),
            "kills": self.kills,
            "signals": dict(sorted(self.signals.items())),
            "signals while Python started": self.early,
            "attempts of several resumers": self.attempts,
            "resumes": {name: self.resumes[name] for name in RESUMES},
            "full disks": self.full_disks,
            "faults": {name: self.faults[name] for name in FAULTS},
            "cycles with a fault": self.faulty_cycles,
            "longest wait in seconds": round(self.longest_wait, 1),
            "first faults": self.first_faults,
        }


def table(content: dict[str, Any]) -> str:
    """The counts below each other, for a terminal."""
    rows: list[tuple[str, Any]] = []
    for name, value in content.items():
        if isinstance(value, dict):
            rows += [(name, sum(value.values())), *((f"  {k}", n) for k, n in value.items())]
        elif name != "first faults":
            rows.append((name, value))
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:{width}}  {value}" for name, value in rows)


def shown(fault: dict[str, Any]) -> str:
    """A fault in full."""
    indented = "\n".join(f"    {line}" for line in fault["detail"].splitlines())
    return f"{fault['fault']} in cycle {fault['cycle']}:\n{indented}"


def store(file: Path, kind: str, when: str, content: dict[str, Any]) -> None:
    """Put it into a file of several kinds, each before and after a change; the others stay as they are.

    Faults in full name places of the machine, so only their counts are stored.
    """
    there = json.loads(file.read_text()) if file.exists() else {}
    kept = {name: value for name, value in content.items() if name != "first faults"}
    there.setdefault(kind, {})[when] = kept
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(there, indent=2, sort_keys=False) + "\n")
