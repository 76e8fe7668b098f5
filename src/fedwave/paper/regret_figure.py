"""The figure of Theorem 3 and Lemma 4: regret to the optimum and to greedy, the bound, and the number of stages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import fedwave as fw
from fedwave.paper import Floats
from fedwave.paper.regret import Regret

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_GREY, _PRINTED = "0.45", "#000000"
_ROOM = 2000  # how far above the highest line of (d) the frame reaches, for the legend
_RULES = {"literal": "-", "max1": "--", "per-device": ":"}


def regret_figure(result: Regret) -> Figure:
    """Four panels: regret to the optimum, to greedy, beside the printed bound, and stages beside Lemma 4."""
    figure, axes = fw.figures.figure_with(2, 2, (10, 8))
    panels = (_draw_regret, _draw_to_greedy, _draw_bound, _draw_stages)
    for draw, axis in zip(panels, axes, strict=True):
        draw(axis, result)
    s = result.setting
    title = (
        f"U = {len(s.distances)}, W = {s.slots}, γ = {s.gamma:g}, {s.rounds:,} rounds, "
        f"{s.instances:,} instances, seed {s.seed}"
    )
    return fw.figures.finish(figure, axes[1], title, _caption(result))


def _caption(result: Regret) -> str:
    """What was run, S, A and H, and the slopes with their 95 % intervals."""
    s, prior = result.setting, result.setting.prior
    lost = {label: fw.statistics.estimate(result.slope(label)) for label in ("balsa", "lagrangian-bayes", "dp-ts")}
    lost["greedy"] = fw.statistics.estimate(result.optimum - result.greedy)
    text = {label: f"{1e6 * value.mean:.2g} ± {1e6 * value.half_width:.2g}" for label, value in lost.items()}
    return (
        f"{len(s.gains)} channel levels; rates drawn between {prior.low:g} and {prior.high:g} for each instance. "
        f"Rewards in [0, 1]. Bands: 95 % over instances.\n"
        f"S = {result.states:,}, A = {result.actions}, H = {result.span:.2f}. Regret a round, in millionths, "
        f"over the second half: BALSA {text['balsa']}; J* - J of greedy is {text['greedy']}; "
        f"lagrangian-bayes {text['lagrangian-bayes']};\n"
        f"dp-ts {text['dp-ts']}. (a), (b): sums of what the decisions give away; "
        f"the end of a run adds at most H. dp-ts: stage rule max1; the others: literal.\n"
        f"The printed bound exceeds T, and says nothing, up to round {result.crossing():.0e}; "
        f"at its slope BALSA would break it at round {result.crossing(lost['balsa'].mean):.0e}."
    )


def _draw_regret(axis: Axes, result: Regret) -> None:
    for label, values in result.regret.items():
        _draw(axis, result.rounds, values, label)
    line = result.rounds * (result.optimum - result.greedy).mean()
    words = "T (J* - J of greedy), exact"
    (exact,) = axis.plot(result.rounds, line, color=_PRINTED, lw=0.9, ls=":")
    axis.legend([exact], [words], frameon=False, fontsize=8, loc="upper left")
    axis.set_xlim(0, result.setting.rounds)
    axis.set_ylim(bottom=0)
    fw.figures.label_panel(axis, "(a) Regret to the Bellman optimum", "Round", "Sum of J* - r")


def _draw_to_greedy(axis: Axes, result: Regret) -> None:
    for label in result.regret:
        _draw(axis, result.rounds, result.to_greedy(label), label)
    axis.axhline(0, color="0.6", lw=0.6, zorder=0)
    axis.set_xlim(0, result.setting.rounds)
    fw.figures.label_panel(axis, "(b) Regret to greedy with known rates", "Round", "Sum of J of greedy - r")


def _draw_bound(axis: Axes, result: Regret) -> None:
    end = result.crossing()
    far = np.geomspace(1, 30 * end, 400)
    axis.plot(far, result.bound(far), color=_PRINTED, lw=1.5, label="Theorem 3 as printed")
    axis.plot(far, far, color=_GREY, lw=1, ls=":", label="T: no regret is larger")
    axis.axvline(end, color=_GREY, lw=0.8, zorder=0)
    words = f"says nothing\nbefore round {end:.0e}".replace("e+", "e")
    axis.annotate(words, (end, 1e3), (-6, 0), textcoords="offset points", ha="right", fontsize=8)
    for label in ("balsa", "dp-ts"):
        mean, words = result.regret[label].mean(axis=1), f"{fw.figures.name_of(label)}, measured"
        axis.plot(result.rounds, mean, lw=1.5, label=words, **fw.figures.style_of(label))
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlim(1, far[-1])
    axis.set_ylim(bottom=1e-6)
    axis.legend(frameon=False, fontsize=8, loc="upper left")
    fw.figures.label_panel(axis, "(c) The bound, and what it bounds", "Round", "Regret")


def _draw_stages(axis: Axes, result: Regret) -> None:
    t = result.rounds
    for states, dash in ((result.states, "-"), (result.counted_states, "--")):
        words = f"Lemma 4, S = {states:,}" + (" (states told apart)" if dash == "--" else "")
        axis.plot(t[1:], result.lemma(t[1:], states), color=_PRINTED, lw=1.3, ls=dash, label=words)
    axis.plot(t, t, color=_GREY, lw=1, ls=":", label="T: there cannot be more")
    colour = fw.figures.style_of("balsa")["color"]
    for rule, values in result.stages.items():
        words = f"{rule}: {values[-1].mean():.0f} in {result.setting.rounds:,} rounds"
        axis.plot(t, values.mean(axis=1), color=colour, ls=_RULES[rule], lw=1.5, label=words)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlim(1, result.setting.rounds)
    axis.set_ylim(0.7, _ROOM * float(result.lemma(t[-1], result.states)))
    axis.legend(frameon=False, fontsize=8, loc="upper left")
    fw.figures.label_panel(axis, "(d) Stages of BALSA by rule", "Round", "Stages so far")


def _draw(axis: Axes, rounds: Floats, values: Floats, label: str) -> None:
    (mean, half), style = fw.statistics.band(values), fw.figures.style_of(label)
    axis.fill_between(rounds, mean - half, mean + half, color=style["color"], alpha=0.12, lw=0)
    # BALSA lies on what it imitates: a broad line below shows beside it.
    broad = 3.2 if label == "alsa-pi" else 1.4
    axis.plot(rounds, mean, lw=broad, label=fw.figures.name_of(label), **style)
