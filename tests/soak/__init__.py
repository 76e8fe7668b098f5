"""Runs that are disturbed for as long as one likes: `python -m tests.soak --minutes 30`, or `make soak MINUTES=30`.

Real processes of the command line are killed, stopped, started several at a time on one folder and given a disk that
is too small. After every cycle the run is resumed to its end, and must be as if nothing had happened.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
if str(ROOT / "tests" / "support") not in sys.path:  # pytest has it there already
    sys.path.append(str(ROOT / "tests" / "support"))
