"""Figures, and the functions that draw them, for figures of your own.

Every figure is a matplotlib Figure. Names on it are drawn literally.

>>> import fedwave as fw
>>> trace = fw.simulate(fw.paper_network(), "balsa", rounds=20, instances=5)
>>> figure, (axis,) = fw.figures.figure_with(1, 1, (5, 4))
>>> fw.figures.label_panel(axis, "Backlog", "Round", "Shards that wait")
>>> looks = fw.figures.styles(["alsa-pi", "balsa"])
>>> fw.figures.draw_band(axis, fw.statistics.band(trace.backlog), "balsa", looks["balsa"])
>>> [line.get_label() for line in axis.get_lines()]
['BALSA']

``Scores`` and ``Learning`` hold what the figures of a simulated and of a trained run show; ``score_figures`` and
``learning_figures`` draw them, and the functions below ``Scores`` and ``Learning`` draw their panels one by one.
"""

from fedwave.experiments.analysis.captions import field_name, sentences, title
from fedwave.experiments.report.figures.common import (
    draw_band,
    draw_bars,
    draw_line,
    figure_of,
    figure_with,
    finish,
    label_panel,
    name_of,
    plain_numbers,
    styles,
    wrapped,
)
from fedwave.experiments.report.figures.learning import (
    Learning,
    draw_means,
    draw_rounds_needed,
    draw_shares,
    draw_single,
    how_drawn,
    learning_figures,
)
from fedwave.experiments.report.figures.score import (
    BANDS,
    Scores,
    bands_caption,
    draw_recent,
    scale_differences,
    score_figures,
)

__all__ = [
    # a figure of your own
    "figure_with",
    "figure_of",
    "label_panel",
    "styles",
    "name_of",
    "draw_line",
    "draw_band",
    "draw_bars",
    "plain_numbers",
    "finish",
    "wrapped",
    "field_name",
    "title",
    "sentences",
    # simulated runs
    "Scores",
    "BANDS",
    "bands_caption",
    "score_figures",
    "draw_recent",
    "scale_differences",
    # trained runs
    "Learning",
    "learning_figures",
    "draw_means",
    "draw_single",
    "draw_shares",
    "draw_rounds_needed",
    "how_drawn",
]
