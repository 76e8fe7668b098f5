"""`python -m tests.equality`: every fast path on a GPU against the reference trainer on a CPU, printed and kept.

What CI does on a CPU (learning/test_equality.py), where a GPU is at hand: as each path says, and once more in float32,
which small chains train in kernels of their own. Every run is stopped and resumed on the way.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path as File

import torch

sys.path.insert(0, str(File(__file__).parent / "support"))
from fast_paths import PATHS, distances

from fedwave.version import __version__

SINGLE = 1e-4  # of the way that the reference has come


def main() -> int:
    asked = argparse.ArgumentParser(prog="python -m tests.equality", description=__doc__)
    asked.add_argument("--device", default="cuda")
    asked.add_argument("--json", help="the file to keep it in")
    how = asked.parse_args()
    rows, far = [], 0
    for name, path in PATHS.items():
        for precision in dict.fromkeys((path.settings.get("precision", "float64"), "float32")):
            # In another precision than its own, what a path may be off is what it leaves out.
            own = path.settings.get("precision", "float64") == precision
            left_out = path.limit if "tolerance" in path.settings else 0.0
            limit = path.limit if own else max(SINGLE, left_out)
            found = distances(path, stop=4, device=how.device, precision=precision)
            off, loss = max(run.off for run in found), max(run.loss for run in found)
            far += not off < limit
            rows.append({"path": name, "precision": precision, "distance": off, "limit": limit, "loss": loss})
            mark = "" if off < limit else "   TOO FAR"
            print(f"{off:9.1e} < {limit:7.1e}  {precision:<9} {name}{mark}", flush=True)
    where = torch.cuda.get_device_name() if how.device == "cuda" else "CPU"
    print(f"{len(rows)} comparisons on {where}: {far} too far")
    if how.json:
        about = {"device": where, "torch": torch.__version__, "fedwave": __version__}
        File(how.json).write_text(json.dumps({**about, "too_far": far, "paths": rows}, indent=1))
    return 1 if far else 0


if __name__ == "__main__":
    raise SystemExit(main())
