"""`fedwave list`: the parts and presets that there are."""

from __future__ import annotations

from typing import Annotated, Any

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
_SCHEDULERS = (
    "Knows, before the first round: true rates (theta), distributions (of gains and arrivals). Sees, in "
    "every round: h (channel gains), n (backlogs), updates (norms of the local updates; needs a task), labels (samples "
    "by class in the uploads that arrived; needs a task). Every scheduler sees which uploads arrived, the shards they "
    "brought, and d, the rounds since. p: probability that an upload arrives; theta_k: arrival rate sampled from the "
    "posterior, once per stage; v, r, x: long-run share of a device, rate and mass of the aggregation rule; R(d): "
    "v r(d) E[x], the mass that a delivery at delay d brings; R_k: at theta_k; w: how much the model lacks the labels "
    "of a device."
)


def list_parts(
    family: Annotated[
        str | None, opt.argument("FAMILY", "Such as schedulers, fading or presets; default: the names of all.")
    ] = None,
    imports: opt.Imports = None,
    json: opt.AsJson = False,
) -> None:
    """List schedulers, all other parts, and presets.

    Shows what each does, its parameters and defaults.
    """
    for source in imports or ():
        import_parts(source)
    plurals = {_plural(one): one for one in registry.FAMILIES}
    content: Any
    if family is None:
        note = "Parameters, defaults and what each does: `fedwave list FAMILY`. Parts of your own: --import FILE."
        content = {shown: list(registry.names(one)) for shown, one in plurals.items()} | {PRESETS: list(preset_names())}
        lines = {shown: [", ".join(names)] for shown, names in content.items()}
    elif family == PRESETS:
        note = "Run one: `fedwave run NAME`. Print it: `fedwave config NAME`."
        content = [{"name": name, "about": preset_about(name)} for name in preset_names()]
        lines = {row["name"]: [row["about"]] for row in content}
    else:
        found = plurals.get(family, family)
        if found not in registry.FAMILIES:
            raise FedwaveError(f"there is no family {family!r}; {did_you_mean(family, [PRESETS, *plurals])}")
        note = _SCHEDULERS if found == "scheduler" else ""
        content = [_part(found, name) for name in registry.names(found)]
        lines = {row["name"]: [row["about"], *_details(row)] for row in content}
    if json:
        output.print_json(content)
        return
    table = output.definitions()
    for name, (first, *more) in lines.items():
        table.add_row(name, first)
        for line in more:
            table.add_row("", line)
    screen = output.console()
    screen.print(table)
    if note:
        screen.print(note)


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
    parameters = ", ".join(name if one is None else f"{name}={one}" for name, one in row["parameters"].items())
    texts = {key: row.get(key) for key in ("priority", "knows", "sees")} | {"parameters": parameters}
    found = "; ".join(f"{key}: {text}" for key, text in texts.items() if text)
    return [found] if found else []


def _plural(family: str) -> str:
    same = family in ("fading", "success", "arrivals", "aggregation")
    return family if same else "criteria" if family == "criterion" else f"{family}s"
