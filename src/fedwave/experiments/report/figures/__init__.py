"""Figures: what those of fedwave are made of, for figures of your own.

Every figure is a matplotlib Figure. Names on it are drawn literally.

>>> import fedwave as fw
>>> trace = fw.simulate(fw.paper_network(), "balsa", rounds=20, instances=5)
>>> figure, (axis,) = fw.figures.figure_with(1, 1, (5, 4))
>>> fw.figures.label_panel(axis, "Backlog", "Round", "Shards that wait")
>>> looks = fw.figures.styles(["alsa-pi", "balsa"])
>>> fw.figures.draw_band(axis, fw.statistics.band(trace.backlog), "balsa", looks["balsa"])
>>> [line.get_label() for line in axis.get_lines()]
['BALSA']

Panels and looks:

    figure_with         a figure and its panels
    label_panel         title, labels and grid of a panel
    finish              title and legend above the panels, the caption below
    wrapped             a caption in lines that fit
    plain_numbers       ticks 1, 2, 5, 10, ... of a logarithmic axis
    styles, style_of    the look of every scheduler of a run; the look of one
    name_of             a scheduler as the paper writes it
    draw_line           a line by round
    draw_band           a mean with its interval by round
    axis_label          a field of an experiment as people call it
    title, sentences    what a Dataset of results was made with; sentences with spaces between

Scores of simulated runs:

    Scores              what the figures show
    BANDS               the names of its bands
    bands_caption       what the bands cover
    score_figures       the figures, by the names of their files
    draw_recent         the mean score of the last rounds in a panel
    scale_differences   the axis of differences
    paper_schedulers    those of the paper's figure of scores
    window_of           the number of rounds that "recent" is the mean of

Trained runs:

    Learning            what the figures show
    learning_figures    the figures, by the names of their files
    draw_means          loss or accuracy of every scheduler in a panel
    draw_single         the same of one instance
    draw_shares         the share of instances that reach a target
    draw_rounds_needed  the round from which a target is reached
    how_drawn           what bands and thin lines are
"""

from fedwave.experiments.analysis.labels import axis_label, sentences, title
from fedwave.experiments.report.figures.common import (
    draw_band,
    draw_line,
    figure_with,
    finish,
    label_panel,
    name_of,
    plain_numbers,
    style_of,
    styles,
    wrapped,
)
from fedwave.experiments.report.figures.learning import (
    draw_means,
    draw_rounds_needed,
    draw_shares,
    draw_single,
    how_drawn,
)
from fedwave.experiments.report.figures.score import draw_recent, scale_differences
from fedwave.experiments.report.learning import Learning, learning_figures
from fedwave.experiments.report.score import BANDS, Scores, bands_caption, paper_schedulers, score_figures, window_of

__all__ = [
    "BANDS",
    "Learning",
    "Scores",
    "axis_label",
    "bands_caption",
    "draw_band",
    "draw_line",
    "draw_means",
    "draw_recent",
    "draw_rounds_needed",
    "draw_shares",
    "draw_single",
    "figure_with",
    "finish",
    "how_drawn",
    "label_panel",
    "learning_figures",
    "name_of",
    "paper_schedulers",
    "plain_numbers",
    "scale_differences",
    "score_figures",
    "sentences",
    "style_of",
    "styles",
    "title",
    "window_of",
    "wrapped",
]
