"""Tables that can be read as text and set as they stand."""

from __future__ import annotations

import math

import pytest
from refusals import refused

from fedwave.experiments.analysis.tables import escape_latex, escape_markdown, latex, markdown, with_interval

HEADING = ["scheduler", "score", "vs alsa-pi"]
ROWS = [["alsa-pi", "9.12±0.11", "-"], ["my_own 50 %", "-1,200±13", "+0.12±0.03"]]


def test_markdown_lines_up() -> None:
    assert markdown(HEADING, ROWS) == (
        "| scheduler   |     score | vs alsa-pi |\n"
        "|:------------|----------:|-----------:|\n"
        "| alsa-pi     | 9.12±0.11 |          - |\n"
        "| my_own 50 % | -1,200±13 | +0.12±0.03 |\n"
    )


def test_narrow_columns_keep_a_rule_that_markdown_knows() -> None:
    assert markdown(["a", "b"], []) == "| a   |   b |\n|:----|----:|\n"


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("a|b", r"a\|b"),
        ("two\nlines", "two lines"),
        ("back\\slash", r"back\\slash"),
        ("[x](http://y)", r"\[x\](http://y)"),
        ("<script>&amp;", r"\<script\>\&amp;"),
        ("`code` **bold** ~~no~~ $x$", r"\`code\` \*\*bold\*\* \~\~no\~\~ \$x\$"),
        ("_x_ alpha_fresh", r"\_x\_ alpha_fresh"),
        (":smile:", r"\:smile:"),
        ("balsa:stage_rule=max1", "balsa:stage_rule=max1"),
        ("a\x1b[2Jb\u202e", r"a\\x1b\[2Jb\\u202e"),
    ],
)
def test_markdown_shows_the_text_as_it_stands(text: str, escaped: str) -> None:
    if text.isprintable():
        assert escape_markdown(text) == escaped
    assert markdown(["h" * len(escaped)], [[text]]).splitlines()[2] == f"| {escaped} |"


def test_latex_by_hand() -> None:
    assert latex(HEADING, ROWS, "50 instances & 95 %\nintervals") == (
        "\\begin{table}\n"
        "  \\centering\n"
        "  \\caption{50 instances \\& 95 \\% intervals}\n"
        "  \\begin{tabular}{lrr}\n"
        "    \\toprule\n"
        "    scheduler     &           score &     vs alsa-pi \\\\\n"
        "    \\midrule\n"
        "    alsa-pi       &   9.12$\\pm$0.11 &              - \\\\\n"
        "    my\\_own 50 \\% & $-$1,200$\\pm$13 & +0.12$\\pm$0.03 \\\\\n"
        "    \\bottomrule\n"
        "  \\end{tabular}\n"
        "\\end{table}\n"
    )


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        *((mark, f"\\{mark}") for mark in "_%&#${}"),
        ("~", r"\textasciitilde{}"),
        ("^", r"\textasciicircum{}"),
        ("\\", r"\textbackslash{}"),
        ("±", r"$\pm$"),
        ("a<b>c|d", r"a\textless{}b\textgreater{}c\textbar{}d"),
        ("\\_{}", r"\textbackslash{}\_\{\}"),  # what is put in is not escaped again
        ("a--b `c`", r"a-{}-b \textasciigrave{}c\textasciigrave{}"),
        ("[x]", "{[}x]"),  # after \\ it would be an option
        ("*", "{*}"),
        ("alpha-fresh:alpha=0.25", "alpha-fresh:alpha=0.25"),
        # A minus is told from a hyphen.
        ("-3", "$-$3"),
        ("-.5", "$-$.5"),
        ("(-3, -2)", "($-$3, $-$2)"),
        ("-3±1", "$-$3$\\pm$1"),
        ("1e-05", "1e-05"),
        ("10-20", "10-20"),
        ("balsa-2", "balsa-2"),
        ("-", "-"),
        ("--3", "-{}-3"),
        ("\N{MINUS SIGN}3", "$-$3"),
    ],
)
def test_latex_prints_the_text_as_it_stands(text: str, escaped: str) -> None:
    assert escape_latex(text) == escaped
    assert f"    {escaped} " in latex(["h"], [[text]], "")


def test_control_characters_are_escapes() -> None:
    assert r"a\textbackslash{}x1b[2Jb" in latex(["h"], [["a\x1b[2Jb"]], "")


@pytest.mark.parametrize(
    ("mean", "half", "options", "text"),
    [
        (12.3456, 0.1234, {}, "12.35±0.12"),
        (12345.6, 123.4, {}, "12,346±123"),
        (0.5, 0.01234, {}, "0.500±0.012"),
        (0.51239, 0.00123, {"most": 4}, "0.5124±0.0012"),
        (0.5, 0.00001, {}, "0.500±0.001"),
        (1.0, 0.2, {"sign": "+"}, "+1.00±0.20"),
        (-1.0, 0.2, {"sign": "+"}, "-1.00±0.20"),
        (3.0, 0.0, {}, "3.00±0.00"),
        (3.0, math.nan, {}, "3.00"),  # one instance
        (3.0, math.inf, {"sign": "+"}, "+3.00"),
        (math.nan, math.nan, {"sign": "+"}, "-"),  # no instance has a number
    ],
)
def test_a_mean_is_written_to_the_digits_that_mean_anything(
    mean: float, half: float, options: dict[str, str | int], text: str
) -> None:
    assert with_interval(mean, half, **options) == text  # type: ignore[arg-type]


def test_bad_tables_are_refused_in_a_sentence() -> None:
    for write in (markdown, lambda heading, rows: latex(heading, rows, "")):
        with refused("['x']", 1, 3):
            write(HEADING, [["x"]])
        with refused("columns"):
            write([], [])
