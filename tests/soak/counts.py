"""What happened in a soak, as counts: printed while it runs, and as JSON."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
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


@dataclass
class Counts:
    """Counted so far."""

    cycles: Counter[str] = field(default_factory=Counter)  # by what was done
    signals: Counter[str] = field(default_factory=Counter)  # "SIGKILL of runner"
    early: int = 0  # signals that met Python's own start, where fedwave can answer nothing
    resumes: Counter[str] = field(default_factory=Counter)
    full_disks: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    faulty_cycles: int = 0
    longest_wait: float = 0.0

    def fault(self, kind: str, detail: str) -> None:
        """Count it, and print it in full."""
        assert kind in FAULTS, kind
        self.faults[kind] += 1
        indented = "\n".join(f"    {line}" for line in detail[-1500:].splitlines())
        print(f"{kind} in cycle {self.cycles.total()}:\n{indented}", flush=True)

    def line(self) -> str:
        """For one look a minute."""
        return (
            f"{self.cycles.total()} cycles, {self.signals.total()} signals, {self.resumes.total()} resumes, "
            f"{self.full_disks} full disks, {self.faults.total()} faults"
        )

    def to_json(self, about: dict[str, Any]) -> dict[str, Any]:
        return {
            **about,
            "cycles": self.cycles.total(),
            "cycles by kind": dict(sorted(self.cycles.items())),
            "signals": dict(sorted(self.signals.items())),
            "signals while Python started": self.early,
            "resumes": {name: self.resumes[name] for name in RESUMES},
            "full disks": self.full_disks,
            "faults": {name: self.faults[name] for name in FAULTS},
            "cycles with a fault": self.faulty_cycles,
            "longest wait in seconds": round(self.longest_wait, 1),
        }
