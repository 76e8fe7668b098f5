"""YAML 1.2 as written by people, and as written by somebody who means harm."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedwave.errors import FedwaveError
from fedwave.files import yaml_text
from fedwave.files.yaml_text import is_yaml_list, read_yaml, write_yaml


@pytest.mark.parametrize(
    "text, value",
    [
        ("1e-6", 1e-6),
        ("+.inf", math.inf),
        ("010", 10),
        ("0o17", 15),
        ("1_000_000", 1_000_000),
        ("yes", "yes"),
        ("NO", "NO"),
        ("true", True),
        ("null", None),
        ("", None),
        ("1:30", "1:30"),
        ("2024-01-01", "2024-01-01"),
        ("=", "="),
        ("!!str 5", "5"),
        ("rician:k_factor=6", "rician:k_factor=6"),
        ("{a: }", {"a": None}),
        ("? a\n: b", {"a": "b"}),
        ("'<<': 1", {"<<": 1}),
    ],
)
def test_plain_values_are_those_of_yaml_1_2(text: str, value: Any) -> None:
    read = read_yaml(text, "it")
    assert (type(read), read) == (type(value), value)


def test_anchors_and_merge_keys() -> None:
    text = "a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\nc: {y: 4, <<: [{x: 5}, *a]}\nd: [*a]\n"
    a = {"x": 1, "y": 2}
    wanted = {"a": a, "b": {"x": 1, "y": 3}, "c": {"x": 5, "y": 4}, "d": [a]}
    assert read_yaml(text, "it") == wanted


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("{a: 1, a: 2}", "line 1: the key 'a'"),
        ("a: 1\nb: {c: 1,\n  c: 2}", "line 3: the key 'c'"),
        ("{1: a, 1.0: b}", 'duplicate key "1.0"'),
        ("{[1]: 2}", "must be text"),
        ("a: !mine x", "line 1: the tag '!mine'"),
        ("9" * 5000, "cannot be read"),
        ("&a [*a]", "the alias 'a' stands for"),
        ("<<: 3", "expected a mapping"),
        ("a: 1\n---\nb: 2", "in line 2: expected a single document"),
        ("a: \x07", "line 1: it holds a control character"),
        ("x" * 1_000_001, "1,000,001 characters"),
    ],
    ids=lambda text: text[:30],
)
def test_what_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(FedwaveError) as caught:
        read_yaml(text, "it")
    assert sentence in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 500


LAUGHS = ["a0: &a0 [ha, ha, ha, ha, ha, ha, ha, ha, ha]"] + [
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)
]
BOMBS = {
    "deep": ("[" * 100_000, "nested too deeply", 30),
    "wide": ("[" + "a," * 150_000, "100,000 values", 100_000),
    "laughs": ("\n".join(LAUGHS), "too large", 200),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_is_refused_after_little_work(bomb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, sentence, most = BOMBS[bomb]
    compose, values = yaml_text._Composer.compose_node, 0

    def counted(*given: Any) -> Any:
        nonlocal values
        values += 1
        return compose(*given)

    monkeypatch.setattr(yaml_text._Composer, "compose_node", counted)
    with pytest.raises(FedwaveError, match=sentence):
        read_yaml(text, "it")
    assert values <= most + 1


def test_a_list_is_known_by_its_beginning() -> None:
    assert is_yaml_list("# devices\n---\n- {rate: 1}\n- [never closed", "it")
    assert not is_yaml_list("a: [1]\nb: [never closed", "it")
    assert not is_yaml_list("", "it")


def test_lists_are_written_in_one_line() -> None:
    content = {"b": [1, {"name": "x", "k": 2}, ["y"]], "a": {"c": 1e-06, "d": []}, "e": list(range(300))}
    text = write_yaml(content)
    assert text.splitlines()[:4] == ["b: [1, {name: x, k: 2}, [y]]", "a:", "  c: 1e-06", "  d: []"]
    assert len(text.splitlines()) == 5
    shared = [1, 2]
    assert "&" not in write_yaml({"a": shared, "b": shared})


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=10)
    | st.from_regex(r"[-+.0-9_eExo:]{1,8}", fullmatch=True)
    | st.sampled_from(["yes", "null", "~", "<<", "=", "2024-01-01", "#", "- a", "a: b", "!x", "&a", "*a", "---"])
)
texts = st.text(max_size=6)


@settings(max_examples=500, derandomize=True, deadline=None, database=None)
@example([{"?0": None}, "?", "? a", {"? b": "?c"}, {"-1": "- x", ":": ": y"}])
@given(st.recursive(scalars, lambda x: st.lists(x, max_size=3) | st.dictionaries(texts, x, max_size=3), max_leaves=8))
def test_what_is_written_is_read_back(value: Any) -> None:
    try:
        text = write_yaml({"value": value})
        text.encode()
    except Exception:  # text that YAML cannot hold: experiments refuse it before
        return
    assert read_yaml(text, "it") == {"value": value}
