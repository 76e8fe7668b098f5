"""`fedwave list`: the parts and presets that there are."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from fedwave.cli import options as opt
from fedwave.cli import output
from fedwave.errors import FedwaveError, did_you_mean
from fedwave.experiments.config.read import preset_about, preset_names
from fedwave.parts import registry
from fedwave.parts.user_code import import_parts

PRESETS = "presets"
# What a scheduler may need (types.INFORMATION): before the first round, and in every round.
_MUST_KNOW = {"rates": "true rates", "statistics": "distributions"}
_SEES = {"channel": "h", "backlog": "n", "learner": "updates", "labels": "labels"}
_NOTES = {
    "scheduler": "Knows, before the first round: true rates (theta), distributions (of gains and arrivals). Sees, in "
    "every round: h (channel gains), n (backlogs), updates (norms of the local updates; needs a task), labels (samples "
    "by class in the uploads that arrived; needs a task). Every scheduler sees which uploads arrived, the shards they "
    "brought, and d, the rounds since. p: probability that an upload arrives; theta_k: arrival rate sampled from the "
    "posterior, once per stage; v, r, x: long-run share of a device, rate and mass of the aggregation rule; R(d): "
    "v r(d) E[x], the mass that a delivery at delay d brings; R_k: at theta_k; w: how much the model lacks the labels "
    "of a device.",
    PRESETS: "Run one: `fedwave run NAME`. Print it: `fedwave config NAME`.",
    "": "Parameters, defaults and what each does: `fedwave list FAMILY`. Parts of your own: --import FILE.",
}


def list_parts(
    family: Annotated[
        str | None,
        typer.Argument(
            metavar="[FAMILY]",
            help="Such as schedulers, fading or presets; default: the names of all.",
            show_default=False,
        ),
    ] = None,
    imports: opt.Imports = None,
    json: opt.AsJson = False,
) -> None:
    """List schedulers, all other parts, and presets.

    Shows what each does, its parameters and defaults.
    """
    for source in imports or ():
        import_parts(source)
    if family is None:
        names = {_plural(one): list(registry.names(one)) for one in registry.FAMILIES} | {PRESETS: list(preset_names())}
        _print("", {one: [", ".join(found)] for one, found in names.items()}, names if json else None)
        return
    known = {_plural(one): one for one in registry.FAMILIES} | {one: one for one in (*registry.FAMILIES, PRESETS)}
    if family not in known:
        shown = [PRESETS, *map(_plural, registry.FAMILIES)]
        raise FedwaveError(f"there is no family {family!r}; {did_you_mean(family, shown)}")
    found = known[family]
    if found == PRESETS:
        rows: list[dict[str, Any]] = [{"name": name, "about": preset_about(name)} for name in preset_names()]
    else:
        rows = [_part(found, name) for name in registry.names(found)]
    _print(found, {row["name"]: [row["about"], *_details(row)] for row in rows}, rows if json else None)


def _part(family: str, name: str) -> dict[str, Any]:
    kind = registry.find(family, name)
    defaults = registry.parse(family, registry.full_text(family, name))
    about = (kind.__doc__ or "").strip().split("\n")[0].replace("``", "`")
    row: dict[str, Any] = {"name": name, "about": about}
    if family == "scheduler":
        row["priority"] = kind.formula
        row["knows"] = ", ".join(text for need, text in _MUST_KNOW.items() if need in kind.needs)
        row["sees"] = ", ".join(text for need, text in _SEES.items() if need in kind.needs)
    return row | {"parameters": {one: defaults.get(one) for one in registry.parameter_names(family, name)}}


def _details(row: dict[str, Any]) -> list[str]:
    """A line with the rest of a row, if there is any; a parameter without a default is its name alone."""
    given = row.get("parameters", {})
    parameters = ", ".join(name if one is None else f"{name}={one}" for name, one in given.items())
    texts = {key: row.get(key) for key in ("priority", "knows", "sees")} | {"parameters": parameters}
    found = [f"{key}: {text}" for key, text in texts.items() if text]
    return ["; ".join(found)] if found else []


def _print(family: str, rows: dict[str, list[str]], content: Any) -> None:
    """Names and lines about them, or ``content`` as JSON."""
    if content is not None:
        output.print_json(content)
        return
    table = output.definitions()
    table.add_column(overflow="fold")
    for name, lines in rows.items():
        table.add_row(name, lines[0])
        for line in lines[1:]:
            table.add_row("", line)
    screen = output.console()
    screen.print(table)
    if note := _NOTES.get(family):
        screen.print(note)


def _plural(family: str) -> str:
    return family if family in ("fading", "success", "arrivals", "aggregation") else f"{family}s"
