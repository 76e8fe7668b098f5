"""The figures of the theorems: greedy's gap, decision times, Theorem 3 with Lemma 4, and Theorem 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

import fedwave as fw
from fedwave.paper import Floats
from fedwave.paper.convergence import Convergence
from fedwave.paper.regret import Regret

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BLACK, _GREY, _LIGHT, _BLUE, _RED = "#000000", "0.45", "0.6", "#0072B2", "#D55E00"
_DECADES = 4  # how far above the first loss the frame reaches: what never falls leaves it
_ROOM = 2000  # how far above the highest line of the stages the frame reaches, for the legend
_RULES = {"literal": "-", "max1": "--", "per-device": ":"}


def gap_figure(rates: Sequence[float], levels: Sequence[Sequence[float]], gap: Floats) -> Figure:
    """A map: the rate of the second device to the right, the channel upwards, the gap as colour and number."""
    figure, (axis,) = fw.figures.figure_with(1, 1, (8.4, 5.0))
    percent = 100 * gap
    image = axis.imshow(percent, origin="lower", cmap="YlOrBr", vmin=0, aspect="auto")
    for (i, j), value in np.ndenumerate(percent):
        colour = "white" if value > 0.6 * percent.max() else "0.15"
        axis.text(j, i, f"{value:.1f}", ha="center", va="center", fontsize=8, color=colour)
    axis.set_xticks(range(len(rates)), [f"{rate:g}" for rate in rates])
    axis.set_yticks(range(len(levels)), [" or ".join(f"{p:g}" for p in chances) for chances in levels])
    axis.set_xlabel("Rate of the second device (the first has 1)")
    axis.set_ylabel("Success probability, equally likely")
    figure.colorbar(image, ax=axis, label="%")
    note = "U = 2, W = 1, Poisson arrivals; both exact (relative value iteration)."
    return fw.figures.finish(figure, axis, "Greedy's backlog above the optimum, %", note)


def times_figure(times: Mapping[tuple[str, int], tuple[float, float]]) -> Figure:
    """The complexity table measured: seconds of a decision by scheduler and U, the first and later ones."""
    figure, axes = fw.figures.figure_with(1, 2, (10, 4.6))
    looks = fw.figures.styles(list(dict.fromkeys(name for name, _ in times)))
    titles = ("(a) A decision, per instance", "(b) The first one, with what is solved before")
    for axis, title, which in zip(axes, titles, (1, 0), strict=True):
        for name, look in looks.items():
            mine = {size: seconds[which] for (scheduler, size), seconds in times.items() if scheduler == name}
            axis.plot(list(mine), list(mine.values()), ms=3.5, lw=1.2, label=fw.figures.name_of(name), **look)
        axis.set(xscale="log", yscale="log")
        fw.figures.label_panel(axis, title, "Devices U", "Seconds")
        fw.figures.plain_numbers(axis.xaxis)
    note = "One core. A line that ends: the scheduler refuses larger networks."
    return fw.figures.finish(figure, axes[0], "Random networks, W = U / 5, γ = 0.01", note)


def regret_figure(result: Regret) -> Figure:
    """Four panels: regret to the optimum, to greedy, beside the printed bound, and stages beside Lemma 4."""
    figure, axes = fw.figures.figure_with(2, 2, (10, 8))
    fw.figures.label_panel(axes[0], "(a) Regret to the Bellman optimum", "Round", "Sum of J* - r")
    _draw_regret(axes[0], result.regret)
    line = result.rounds * (result.optimum - result.greedy).mean()
    (exact,) = axes[0].plot(result.rounds, line, color=_BLACK, lw=0.9, ls=":")
    axes[0].legend([exact], ["T (J* - J of greedy), exact"], frameon=False, fontsize=8, loc="upper left")
    axes[0].set_ylim(bottom=0)
    fw.figures.label_panel(axes[1], "(b) Regret to greedy with known rates", "Round", "Sum of J of greedy - r")
    _draw_regret(axes[1], {label: result.to_greedy(label) for label in result.regret})
    axes[1].axhline(0, color=_LIGHT, lw=0.6, zorder=0)
    _draw_bound(axes[2], result)
    _draw_stages(axes[3], result)
    s = result.setting
    title = (
        f"U = {len(s.distances)}, W = {s.slots}, γ = {s.gamma:g}, {s.rounds:,} rounds, "
        f"{s.instances:,} instances, seed {s.seed}"
    )
    return fw.figures.finish(figure, axes[1], title, _regret_caption(result))


def _regret_caption(result: Regret) -> str:
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


def _draw_regret(axis: Axes, regret: Mapping[str, Floats]) -> None:
    looks = fw.figures.styles(list(regret))
    for label, values in regret.items():
        # BALSA lies on what it imitates: a broad line below shows beside it.
        broad = 3.2 if label == "alsa-pi" else 1.4
        fw.figures.draw_band(axis, fw.statistics.band(values), label, looks[label], lw=broad)


def _draw_bound(axis: Axes, result: Regret) -> None:
    end = result.crossing()
    far = np.geomspace(1, 30 * end, 400)
    axis.plot(far, result.bound(far), color=_BLACK, lw=1.5, label="Theorem 3 as printed")
    axis.plot(far, far, color=_GREY, lw=1, ls=":", label="T: no regret is larger")
    axis.axvline(end, color=_GREY, lw=0.8, zorder=0)
    words = f"says nothing\nbefore round {end:.0e}".replace("e+", "e")
    axis.annotate(words, (end, 1e3), (-6, 0), textcoords="offset points", ha="right", fontsize=8)
    looks = fw.figures.styles(list(result.regret))
    for label in ("balsa", "dp-ts"):
        words = f"{fw.figures.name_of(label)}, measured"
        mean = result.regret[label].mean(axis=1)
        fw.figures.draw_line(axis, mean, looks[label], result.rounds, label=words)
    axis.set(xscale="log", yscale="log", xlim=(1, far[-1]))
    axis.set_ylim(bottom=1e-6)
    axis.legend(frameon=False, fontsize=8, loc="upper left")
    fw.figures.label_panel(axis, "(c) The bound, and what it bounds", "Round", "Regret")


def _draw_stages(axis: Axes, result: Regret) -> None:
    t = result.rounds
    for states, dash in ((result.states, "-"), (result.counted_states, "--")):
        words = f"Lemma 4, S = {states:,}" + (" (states told apart)" if dash == "--" else "")
        axis.plot(t[1:], result.lemma(t[1:], states), color=_BLACK, lw=1.3, ls=dash, label=words)
    axis.plot(t, t, color=_GREY, lw=1, ls=":", label="T: there cannot be more")
    colour = fw.figures.styles(["balsa"])["balsa"]["color"]
    for rule, values in result.stages.items():
        words = f"{rule}: {values[-1].mean():.0f} in {result.setting.rounds:,} rounds"
        axis.plot(t, values.mean(axis=1), color=colour, ls=_RULES[rule], lw=1.5, label=words)
    highest = _ROOM * float(result.lemma(t[-1], result.states))
    axis.set(xscale="log", yscale="log", xlim=(1, result.setting.rounds), ylim=(0.7, highest))
    axis.legend(frameon=False, fontsize=8, loc="upper left")
    fw.figures.label_panel(axis, "(d) Stages of BALSA by rule", "Round", "Stages so far")


def convergence_figure(tried: Convergence, apart: Convergence) -> Figure:
    """The loss with all bounds; eps and V by round, with and without a common minimiser."""
    figure, (left, right) = fw.figures.figure_with(1, 2, (10, 4.9))
    _draw_bounds(left, tried, apart)
    _draw_assumptions(right, tried, apart)
    for axis in (left, right):
        axis.set_xlim(0, tried.setting.rounds)
    s, k = tried.setting, tried.constants
    title = f"U = {s.devices}, W = {s.slots}, {s.rounds:,} rounds, {s.instances:,} instances, seed {s.seed}"
    text = (
        f"Logistic regression, {s.features} features, l2 = {s.l2:g}; {s.samples} samples a device, "
        f"beta = {s.beta:g}. Thin: single instances.\n"
        f"L = {k.smoothness:.3f}, xi = {k.convexity:g}, eps = {k.alignment:.3f}, V = {k.dissimilarity:.3f}, "
        f"zeta = {k.uploads:.2f}; eta = {k.eta:.3f} (limit: corrected {k.limit:.2f}, printed {k.printed_limit:.2f}); "
        f"printed eps' = {k.printed_rate:.2f}, never positive.\n"
        f"Data of each device's own: no common minimiser, eps falls to {apart.constants.alignment:.0f}, "
        f"V rises to {apart.constants.dissimilarity:.0f}, the loss stops {apart.gap[-1].mean():.1g} above its minimum."
    )
    figure.suptitle(title, fontsize=10, fontweight="bold")
    figure.supxlabel(text, fontsize=8, color="0.35")
    return figure


def _draw_bounds(axis: Axes, tried: Convergence, apart: Convergence) -> None:
    rounds = np.arange(tried.setting.rounds + 1)
    # The lines from the top of the frame to its bottom: the legend reads like the figure.
    for label, values, colour, dash in (
        ("printed, second bound", tried.printed_power, _RED, "-"),
        ("corrected, for the mean", tried.power, _BLUE, "--"),
        ("corrected, for every path", tried.product, _BLUE, "-"),
        ("measured", tried.gap, _BLACK, "-"),
        ("printed, first bound", tried.printed_product, _RED, "--"),
        ("measured, data of each device's own", apart.gap, _GREY, ":"),
    ):
        if values.ndim == 2:
            axis.plot(rounds, values, color=colour, lw=0.4, alpha=0.25)
        mean = values.mean(axis=1) if values.ndim == 2 else values
        axis.plot(rounds, mean, color=colour, linestyle=dash, lw=1.5, label=label)
    axis.set_yscale("log")
    first, last = float(tried.gap[0, 0]), float(tried.gap[-1].mean())
    axis.set_ylim(last / 30, first * 10**_DECADES)
    axis.legend(frameon=False, fontsize=8, loc="upper right")
    fw.figures.label_panel(axis, "(a) Loss above its minimum, and its bounds", "Round", "l(w) - l*")


def _draw_assumptions(axis: Axes, tried: Convergence, apart: Convergence) -> None:
    rounds = np.arange(1, tried.setting.rounds + 1)
    for result, colour, words in ((apart, _RED, "data of each device's own"), (tried, _BLUE, "common minimiser")):
        axis.plot(rounds, result.dissimilarity, color=colour, lw=1.3, label=f"V, {words}")
        axis.plot(rounds, result.alignment, color=colour, ls="--", lw=1.3, label=f"eps, {words}")
    axis.axhline(0, color=_LIGHT, lw=0.6, zorder=0)
    axis.set_yscale("symlog", linthresh=1)
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    words = "eps must stay above 0, V finite"
    fw.figures.label_panel(axis, "(b) The eps and V that each round would need", "Round", words)
    axis.legend(frameon=False, fontsize=8, loc="upper right", bbox_to_anchor=(1, 0.47))
