"""YAML and JSON read with care: plain values only, no key twice, and one sentence about what is wrong."""

from __future__ import annotations

import json
import re
from typing import Any

import yaml

from fedwave.errors import FedwaveError

# YAML 1.1 takes 1e-6 for a text: it wants 1.0e-6. Nobody writes that.
_FLOAT = re.compile(r"^[-+]?([0-9][0-9_]*(\.[0-9_]*)?|\.[0-9][0-9_]*)[eE][-+]?[0-9]+$")
_FLOAT_TAG, _MERGE_TAG = "tag:yaml.org,2002:float", "tag:yaml.org,2002:merge"


class _Loader(yaml.SafeLoader):
    """The safe loader, which also refuses a key that stands twice."""

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE_TAG:
                continue
            if key.value in seen:
                problem = f"the key {key.value!r} stands twice"
                raise yaml.composer.ComposerError(None, None, problem, key.start_mark)
            seen.add(key.value)
        return node

    def refuse_tag(self, node: yaml.Node) -> Any:
        problem = f"the tag {node.tag!r} is not known, write plain values"
        raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


class _Dumper(yaml.SafeDumper):
    """Writes what the loader reads, a list in one line."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def in_one_line(self, data: list[Any]) -> yaml.Node:
        return self.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=True)


_Loader.add_constructor(None, _Loader.refuse_tag)
_Dumper.add_representer(list, _Dumper.in_one_line)
for _class in (_Loader, _Dumper):  # the dumper must know which texts need quotes
    _class.add_implicit_resolver(_FLOAT_TAG, _FLOAT, list("-+.0123456789"))


def read_yaml(text: str, what: str) -> Any:
    """The content of a YAML text."""
    try:
        return yaml.load(text, _Loader)  # a safe loader
    except yaml.MarkedYAMLError as error:
        line = 0 if error.problem_mark is None else error.problem_mark.line
        problem = str(error.problem)
        if problem.startswith("but"):  # the second half of a sentence
            problem = f"{error.context} {problem}"
        raise FedwaveError(f"{what} is not valid YAML in line {line + 1}: {problem}.") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise FedwaveError(
            f"{what} is not valid YAML in line {line}: it holds a character that no text has."
        ) from None
    except RecursionError:
        raise FedwaveError(f"{what} is nested too deeply: write it more plainly.") from None
    except (
        Exception
    ) as error:  # a date or a number that does not exist makes PyYAML fail in many ways
        raise FedwaveError(
            f"{what} is not valid YAML: it holds a value that cannot be read ({error})."
        ) from None


def read_json(text: str, what: str) -> Any:
    """The content of a JSON text."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content: dict[str, Any] = {}
        for key, value in pairs:
            if key in content:
                raise FedwaveError(f"{what} is not valid: the key {key!r} stands twice.")
            content[key] = value
        return content

    try:
        return json.loads(text, object_pairs_hook=once)
    except json.JSONDecodeError as error:
        raise FedwaveError(
            f"{what} is not valid JSON in line {error.lineno}: {error.msg}."
        ) from None
    except RecursionError:
        raise FedwaveError(f"{what} is nested too deeply: write it more plainly.") from None
    except ValueError as error:  # a number of thousands of digits
        raise FedwaveError(f"{what} holds a value that cannot be read: {error}.") from None


def write_yaml(content: Any) -> str:
    """A YAML text that read_yaml reads back."""
    text: str = yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return text
