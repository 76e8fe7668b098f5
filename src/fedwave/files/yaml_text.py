"""Reads and writes YAML 1.2: plain values within bounds, no key twice. Errors name the line."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer
from ruamel.yaml.constructor import ConstructorError, SafeConstructor
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.events import AliasEvent, NodeEvent, SequenceStartEvent
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode
from ruamel.yaml.reader import ReaderError
from ruamel.yaml.representer import SafeRepresenter

from fedwave.errors import FedwaveError, short_repr
from fedwave.plain_text import is_unseen, visible

_MOST_CHARACTERS = 1_000_000
_MOST_VALUES = 100_000  # seconds of work; a larger device table is better kept as CSV
_DEEPEST = 20
_LONGEST_NUMBER = 1000  # characters; Python reads longer hexadecimal numbers, but cannot print them
_TAG = "tag:yaml.org,2002:"
_NUMBERS = ("int", "float", "bool")
_PLAIN = (*_NUMBERS, "str", "null", "seq", "map", "merge", "value", "timestamp")


def read_yaml(text: str, what: str) -> Any:
    """The content of a YAML text: mappings, lists, texts, numbers, true, false and null."""
    with _refusals(text, what):
        return _loader().load(text)


def is_yaml_list(text: str, what: str) -> bool:
    """Is the content of a YAML text a list? Reads only its beginning."""
    with _refusals(text, what):
        nodes = (event for event in _loader().parse(text) if isinstance(event, NodeEvent))
        return isinstance(next(nodes, None), SequenceStartEvent)


def _loader() -> YAML:
    yaml = YAML(typ="safe", pure=True)
    yaml.Composer = _Composer
    yaml.Constructor = _Constructor
    return yaml


class _Composer(Composer):
    """Refuses a text that is nested too deeply or holds too many values, before they take memory."""

    def __init__(self, loader: Any = None) -> None:
        super().__init__(loader=loader)
        self._count, self._depth = 0, 0
        self._sizes: dict[int, int] = {}  # of the finished nodes, by identity

    def compose_node(self, parent: Any, index: Any) -> Any:
        """A node; an alias counts as all values that it stands for, since a few aliases can stand for billions."""
        before, is_alias = self._count, self.parser.check_event(AliasEvent)
        self._count += 1
        self._depth += 1
        if self._depth > _DEEPEST + 1:
            raise _Limit(f"is nested too deeply: use at most {_DEEPEST} levels.")
        event = self.parser.peek_event()
        node = super().compose_node(parent, index)
        self._depth -= 1
        if not is_alias:
            self._sizes[id(node)] = self._count - before
        elif id(node) in self._sizes:
            self._count += self._sizes[id(node)]
        else:
            raise _wrong(event, f"the alias {short_repr(event.anchor)} stands for a value that it is part of")
        if self._count > _MOST_VALUES:
            raise _Limit(f"is too large: it may hold at most {_MOST_VALUES:,} values.")
        return node


class _Constructor(SafeConstructor):
    """Plain values: dates stay text, and other tags are refused."""

    def construct_object(self, node: Node, deep: bool = False) -> Any:
        kind = str(node.tag).removeprefix(_TAG)
        if kind not in _PLAIN and node.tag != "!":
            raise _wrong(node, f"the tag {short_repr(str(node.tag))} is not known, write plain values")
        try:
            if isinstance(node, ScalarNode):
                node.value.encode()  # "\\ud800" is half a character
                if kind in _NUMBERS and len(node.value) > _LONGEST_NUMBER:
                    raise ValueError
            return super().construct_object(node, deep)
        except MarkedYAMLError:
            raise
        except Exception:  # ruamel fails in many ways on a number that does not exist
            raise _wrong(node, f"it holds a value that cannot be read, {short_repr(node.value)} as {kind}") from None

    def flatten_mapping(self, node: MappingNode) -> Any:
        """Merges ``<<``, after looking for keys that are given twice, which ruamel does not do beside a merge."""
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, ScalarNode):
                raise _wrong(key, "a key is a list or a mapping, must be text")
            if (key.tag, key.value) in seen:
                raise _wrong(key, f"the key {short_repr(key.value)} is given twice")
            seen.add((key.tag, key.value))
        return super().flatten_mapping(node)


for _kind in ("value", "timestamp"):
    _Constructor.add_constructor(_TAG + _kind, SafeConstructor.construct_yaml_str)
_Constructor.add_constructor("!", SafeConstructor.construct_yaml_str)


def _wrong(where: Node | NodeEvent, problem: str) -> ConstructorError:
    return ConstructorError(None, None, problem, where.start_mark)


class _Limit(Exception):
    """The text exceeds a limit; the message lacks the name of the text."""


@contextmanager
def _refusals(text: str, what: str) -> Iterator[None]:
    """Turns what ruamel raises into a FedwaveError of one sentence."""
    if len(text) > _MOST_CHARACTERS:
        raise FedwaveError(f"{what} has {len(text):,} characters, must have at most {_MOST_CHARACTERS:,}.")
    try:
        yield
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = str(error.problem).partition("\n")[0]
        if problem.startswith("but"):  # the second half of a sentence
            problem = f"{error.context} {problem}"
        short = " ".join(problem.split())[:300]  # ruamel quotes a tag of any length
        raise FedwaveError(f"{what} is not valid YAML in line {mark.line + 1 if mark else 1}: {short}.") from None
    except _Limit as error:
        raise FedwaveError(f"{what} {error}") from None
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise FedwaveError(f"{what} is not valid YAML in line {line}: it holds a control character.") from None
    except FedwaveError:
        raise
    except Exception as error:  # ruamel fails in many ways, as on "\\U00110000" and %YAML 1.111...
        why = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise FedwaveError(f"{what} is not valid YAML: it cannot be read ({why}).") from None


class _Representer(SafeRepresenter):
    """Writes a list in one line, and no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def in_one_line(self, data: list[Any]) -> Any:
        return self.represent_sequence(_TAG + "seq", data, flow_style=True)

    def quoted(self, data: str) -> Any:
        """A text, in quotes where it would be read as something else.

        A line break that is not a newline is lost unless it is escaped. In a list, a question mark or a colon at the
        beginning marks a key or a value.
        """
        plain = data.isprintable() and not data.startswith(("?", ":"))
        return self.represent_scalar(_TAG + "str", data, style=None if plain else '"')


_Representer.add_representer(list, _Representer.in_one_line)
_Representer.add_representer(str, _Representer.quoted)


def write_yaml(content: Any, only_ascii: bool = False) -> str:
    """A YAML text that read_yaml reads back, with invisible characters escaped, or all that are not ASCII."""
    yaml = YAML(typ="safe", pure=True)
    yaml.Representer = _Representer
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    vars(yaml).update(default_flow_style=False, width=1_000_000)  # a list stays in one line
    text = io.StringIO()
    yaml.allow_unicode = not only_ascii
    yaml.dump(content, text)
    # These are in quotes (see _Representer), so that an escape is read back as the character.
    return "".join(visible(c) if is_unseen(c) and c != "\n" else c for c in text.getvalue())
