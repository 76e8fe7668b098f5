"""YAML 1.2 read with care: plain values only, no key twice, bounded work, one sentence on what is wrong."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.events import AliasEvent, MappingStartEvent, ScalarEvent, SequenceStartEvent
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.reader import ReaderError
from ruamel.yaml.representer import SafeRepresenter

from fedwave.errors import FedwaveError, shown
from fedwave.files.reading import check_encodable
from fedwave.plain_text import is_unseen, visible

_MOST_CHARACTERS = 1_000_000
_MOST_VALUES = 100_000  # seconds of work; a larger device table is better kept as CSV
_DEEPEST = 20
_LONGEST_NUMBER = 1000  # characters; Python reads hexadecimal numbers of any length, but cannot show them
_TAG = "tag:yaml.org,2002:"
_NODES = (AliasEvent, ScalarEvent, SequenceStartEvent, MappingStartEvent)
_CONVERTED = {_TAG + kind for kind in ("int", "float", "bool", "null")}
_TEXTS = {_TAG + kind for kind in ("str", "timestamp", "value", "merge")} | {"!"}


def read_yaml(text: str, what: str) -> Any:
    """The content of a YAML text: mappings, lists, texts, numbers, true, false and null."""
    with _refusals(text, what):
        return _Reader(text, what).document()


def is_list(text: str, what: str) -> bool:
    """Is the content of a YAML text a list? It is read no further than to where that is known."""
    with _refusals(text, what):
        return _Reader(text, what).begins_a_list()


@contextmanager
def _refusals(text: str, what: str) -> Iterator[None]:
    """What ruamel raises, as one sentence."""
    if len(text) > _MOST_CHARACTERS:
        raise FedwaveError(f"{what} has {len(text):,} characters, must have at most {_MOST_CHARACTERS:,}.")
    try:
        yield
    except MarkedYAMLError as error:
        line = 0 if error.problem_mark is None else error.problem_mark.line
        problem = str(error.problem)
        if problem.startswith("but"):  # the second half of a sentence
            problem = f"{error.context} {problem}"
        raise _invalid(what, line, problem) from None
    except FedwaveError:
        raise
    except ReaderError as error:
        line = text.count("\n", 0, error.position)
        raise _invalid(what, line, "it holds a control character") from None
    except Exception as error:  # ruamel fails in many ways, as on "\\U00110000" and %YAML 1.111...
        why = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise FedwaveError(f"{what} is not valid YAML: it cannot be read ({why}).") from None


class _Reader:
    """Plain values from the events of a parser, so that hostile text is refused before it is held in memory."""

    def __init__(self, text: str, what: str) -> None:
        self._yaml = YAML(typ="safe", pure=True)
        self._events: Iterator[Any] = self._yaml.parse(text)
        self._what = what
        self._count = 0
        self._anchors: dict[str, tuple[Any, int]] = {}  # the value, and how many values it holds

    def document(self) -> Any:
        content, documents = None, 0
        for event in self._events:
            if isinstance(event, _NODES):
                documents += 1
                if documents > 1:
                    raise self._wrong(event, "there is a second document, keep one")
                content = self._value(event, 0)
        return content

    def begins_a_list(self) -> bool:
        first = next((event for event in self._events if isinstance(event, _NODES)), None)
        return isinstance(first, SequenceStartEvent)

    def _value(self, event: Any, depth: int) -> Any:
        before = self._count
        self._add(1)
        if depth > _DEEPEST:
            raise FedwaveError(f"{self._what} is nested too deeply: use at most {_DEEPEST} levels.")
        if isinstance(event, AliasEvent):
            if event.anchor not in self._anchors:
                raise self._wrong(event, f"the alias {shown(event.anchor)} stands for nothing yet")
            value, size = self._anchors[event.anchor]
            self._add(size)  # a few aliases can stand for billions of values
            return value
        if isinstance(event, ScalarEvent):
            value = self._scalar(event)
        elif isinstance(event, SequenceStartEvent):
            self._check_tag(event, "seq")
            value = [self._value(item, depth + 1) for item in self._inside()]
        else:
            self._check_tag(event, "map")
            value = self._mapping(depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = value, self._count - before
        return value

    def _mapping(self, depth: int) -> dict[Any, Any]:
        own: dict[Any, Any] = {}
        merged: dict[Any, Any] = {}
        for event in self._inside():
            merge = isinstance(event, ScalarEvent) and event.value == "<<" and event.implicit[0]
            key = self._value(event, depth + 1)
            value = self._value(next(self._events), depth + 1)
            if merge:
                for other in value if isinstance(value, list) else [value]:
                    if not isinstance(other, dict):
                        raise self._wrong(event, "<< must stand before a mapping")
                    self._add(len(other))
                    for name, content in other.items():  # not a copy for each of thousands
                        merged.setdefault(name, content)
            elif isinstance(key, (list, dict)):
                raise self._wrong(event, "a key is a list or a mapping, must be text")
            elif key in own:
                raise self._wrong(event, f"the key {shown(key)} is given twice")
            else:
                own[key] = value
        return {**merged, **own}

    def _inside(self) -> Iterator[Any]:
        """Events up to the end of the list or mapping that has begun; nested ones are read by the caller."""
        for event in self._events:
            if type(event).__name__ in ("SequenceEndEvent", "MappingEndEvent"):
                return
            yield event

    def _scalar(self, event: Any) -> Any:
        tag = event.tag or self._yaml.resolver.resolve(ScalarNode, event.value, event.implicit)
        if str(tag) in _TEXTS:
            check_encodable(event.value, self._what)
            return event.value
        if str(tag) not in _CONVERTED:
            raise self._unknown_tag(event)
        try:
            if len(event.value) <= _LONGEST_NUMBER:
                return self._yaml.constructor.construct_object(ScalarNode(str(tag), event.value))
        except Exception:  # ruamel fails in many ways on a number that does not exist
            pass
        kind = str(tag).removeprefix(_TAG)
        problem = f"it holds a value that cannot be read, {shown(event.value)} as {kind}"
        raise self._wrong(event, problem)

    def _check_tag(self, event: Any, kind: str) -> None:
        if event.tag not in (None, "!", _TAG + kind):
            raise self._unknown_tag(event)

    def _unknown_tag(self, event: Any) -> FedwaveError:
        return self._wrong(event, f"the tag {shown(str(event.tag))} is not known, write plain values")

    def _add(self, values: int) -> None:
        self._count += values
        if self._count > _MOST_VALUES:
            raise FedwaveError(f"{self._what} is too large: it may hold at most {_MOST_VALUES:,} values.")

    def _wrong(self, event: Any, problem: str) -> FedwaveError:
        return _invalid(self._what, event.start_mark.line, problem)


class _Representer(SafeRepresenter):
    """Writes a list in one line, and no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def in_one_line(self, data: list[Any]) -> Any:
        return self.represent_sequence(_TAG + "seq", data, flow_style=True)

    def quoted(self, data: str) -> Any:
        """In quotes where it would be read as something else.

        A line break that is not a newline is lost unless it is escaped. In a list, a question mark or a colon at the
        beginning is taken for the sign of a key or of a value.
        """
        plain = data.isprintable() and not data.startswith(("?", ":"))
        return self.represent_scalar(_TAG + "str", data, style=None if plain else '"')


_Representer.add_representer(list, _Representer.in_one_line)
_Representer.add_representer(str, _Representer.quoted)


def write_yaml(content: Any, only_ascii: bool = False) -> str:
    """A YAML text that read_yaml reads back; what cannot be seen in it is escaped, or all beyond ASCII."""
    yaml = YAML(typ="safe", pure=True)
    yaml.Representer = _Representer
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    vars(yaml).update(default_flow_style=False, width=1_000_000)  # a list stays in one line
    text = io.StringIO()
    yaml.allow_unicode = not only_ascii
    yaml.dump(content, text)
    # These are in quotes (see _Representer), so that an escape is read back as the character.
    return "".join(visible(c) if is_unseen(c) and c != "\n" else c for c in text.getvalue())


def _invalid(what: str, line: int, problem: str) -> FedwaveError:
    short = " ".join(problem.split())[:300]  # ruamel quotes a tag of any length
    return FedwaveError(f"{what} is not valid YAML in line {line + 1}: {short}.")
