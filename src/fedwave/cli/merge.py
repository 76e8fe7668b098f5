"""`fedwave merge`: finished lots of an experiment, put together into one run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from fedwave.cli import options as opt
from fedwave.cli import output
from fedwave.cli.terminal import print_error
from fedwave.experiments.merge import merging


@opt.flat()
def merge(
    *,
    folders: Annotated[list[Path], opt.argument("DIR", "Finished runs.")],
    out: Annotated[Path, opt.out("New run folder.")],
    printing: opt.Printing,
) -> None:
    """Merge runs of one experiment with different instances, as if run at once.

    A lot: fedwave run EXPERIMENT first_instance=20 instances=10. The folders are checked as by `fedwave verify` and
    stay as they are. Nothing is imported or run.
    """
    with merging(folders, out, print_error) as results:
        output.show(results, out, printing)
