"""`fedwave bench`: how fast is fedwave here, beside plain PyTorch and other simulators?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from fedwave.cli import options as opt
from fedwave.cli import output
from fedwave.cli.progress import steps
from fedwave.cli.terminal import print_error
from fedwave.errors import FedwaveError, as_int, extra_for, short_repr
from fedwave.files.writing import write_json

_DATASETS = ("mnist", "synthetic")
_SIZES = {False: (5, 5), True: (1, 2)}  # by quick: rounds of a repeat, repeats


def bench(
    rounds: Annotated[
        int | None, typer.Option("--rounds", "-t", help="Rounds of a repeat.", show_default="5; quick: 1")
    ] = None,
    repeats: Annotated[
        int | None, typer.Option("--repeats", help="Repeats, after a warm-up.", show_default="5; quick: 2")
    ] = None,
    threads: Annotated[
        list[int] | None, typer.Option("--threads", help="Cores that each way gets. Can be repeated.", show_default="1")
    ] = None,
    device: Annotated[
        str, typer.Option("--device", help="auto (the CPU, and a GPU if there is one), cpu or cuda.")
    ] = "auto",
    peers: Annotated[
        bool | None,
        typer.Option(
            "--peers/--no-peers",
            help="Make the environments of other simulators (about 1 GB each, from the network), or leave them out.",
            show_default="those that are there",
        ),
    ] = None,
    environments: Annotated[
        Path | None,
        typer.Option(
            "--environments",
            parser=opt.named,
            metavar="DIR",
            help="Folder of their environments.",
            show_default="a cache",
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A glance: few rounds.")] = False,
    dataset: Annotated[str, typer.Option("--dataset", help="mnist, or synthetic, which needs no files.")] = "mnist",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", parser=opt.named, metavar="FILE", help="Write everything (.json).")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option("--figure", parser=opt.named, metavar="FILE", help="Draw it (.png, .svg, .pdf).")
    ] = None,
    json: opt.AsJson = False,
) -> None:
    """Play the paper's MNIST rounds with fedwave, plain PyTorch, pfl-research and Flower, and compare their speed.

    All play the same rounds in turns. Without --peers nothing is installed: other simulators are measured if their
    environments are there. With a GPU, fedwave and plain PyTorch are measured on it too.
    """
    # Imported here: the other commands start faster without PyTorch.
    with extra_for("fedwave bench"):
        from fedwave.bench.environments import default_folder
        from fedwave.bench.measure import Plan
        from fedwave.bench.run import benchmark
        from fedwave.bench.table import HEADS, notes, rows, title_of, work_of
        from fedwave.bench.work import Setting
        from fedwave.experiments.report.figures.common import ENDINGS
        from fedwave.experiments.report.figures.speed import write_speeds
        from fedwave.learning.settings import available_device

    opt.check_out(out, ".json")
    opt.check_out(figure, *ENDINGS, name="--figure")
    if dataset not in _DATASETS:
        raise FedwaveError(f"--dataset is {short_repr(dataset)}, must be {' or '.join(_DATASETS)}.")
    available_device(device)  # refused at once
    usual = _SIZES[quick]
    plan = Plan(
        as_int("--rounds", usual[0] if rounds is None else rounds, 1),
        as_int("--repeats", usual[1] if repeats is None else repeats, 1),
        peers is not False,
        peers is True,
        (default_folder() if environments is None else environments).absolute(),
    )
    with steps() as message:
        content = benchmark(Setting(dataset), plan, _threads(threads), device, message)
    if out is not None:
        write_json(out, content)
    if figure is not None:
        panels = {title_of(content, one): one["ways"] for one in content["sections"]}
        write_speeds(panels, work_of(content), figure)
    for section in content["sections"]:
        for sentence in notes(section):
            print_error(sentence)
    if json:
        output.print_json(content)
        return
    tables = [output.plain_rows(HEADS, rows(one), title_of(content, one)) for one in content["sections"]]
    tables[-1].caption = work_of(content)
    output.print_tables(tables)
    for what, place in (("Everything", out), ("Figure", figure)):
        if place is not None:
            output.print_out(f"{what} written to {place}")


def _threads(given: list[int] | None) -> list[int]:
    found = [as_int("--threads", count, 1) for count in given or [1]]
    cores = os.cpu_count() or 1
    if max(found) > cores:
        raise FedwaveError(f"--threads is {max(found)}, but there are only {cores} cores.")
    return list(dict.fromkeys(found))
