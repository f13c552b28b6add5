"""The objects of a manifest: YAML of several documents, or JSON, with bounds. Pure.

Manifests come from anyone who may ask. YAML lets a short text stand for a very large object, since
an alias repeats what its anchor names; so the size that it stands for is counted first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import yaml

from shared_api.program_flags import check_keys
from shared_api.text_decoding import PARSERS_LIMIT

MAX_DOCUMENTS: Final = 50
"""Objects in one manifest; each is an answer of its own."""

MAX_DEPTH: Final = 64
"""How deeply values may be nested; pod templates in a list in a job have a dozen levels."""

MAX_EXPANDED: Final = 4_194_304
"""What a manifest may stand for, in characters; each value counts `_NODE_CHARS` more."""

MAX_SHOWN: Final = 300
"""Characters that are quoted of what the parser says."""

_NODE_CHARS: Final = 128
"""What a value counts in addition to its text: it takes some 20 us to be built, so that all that is
accepted takes less than a second. A job has a few hundred values."""


class ManifestError(ValueError):
    """A manifest cannot be read; the message says where and why."""


def read_documents(content: bytes, *, is_json: bool) -> list[dict[str, Any]]:
    """Return the objects of a manifest in their order, lists (`kind: List`) taken apart.

    Args:
        content: The manifest, in UTF-8.
        is_json: Whether it is JSON, not YAML.

    Raises:
        ManifestError: It cannot be parsed, has no object, or too many, or is too large or too deep.
    """
    try:
        loaded = [_read_json(content)] if is_json else _read_yaml(content)
        found = [
            each
            for number, document in enumerate(loaded, 1)
            if document is not None
            for each in _take_apart(document, f"document {number}")
        ]
        _check_depth(found)
        # What is no JSON has no meaning for the API server; this also finds what cannot be encoded.
        found = [msgspec.json.decode(msgspec.json.encode(each)) for each in found]
    except yaml.YAMLError as error:
        # The parser reads ahead: it may find more levels than its own limit before `_Sizes` does.
        if PARSERS_LIMIT in str(error):
            raise _too_deep() from error
        raise ManifestError(f"it is not YAML: {_one_line(error)}") from error
    except (msgspec.MsgspecError, RecursionError, TypeError, ValueError, OverflowError) as error:
        if isinstance(error, ManifestError):
            raise
        raise ManifestError(f"it cannot be read: {_one_line(error)}") from error
    if not found:
        raise ManifestError("it has no object")
    if len(found) > MAX_DOCUMENTS:
        raise ManifestError(f"it has {len(found)} objects, at most {MAX_DOCUMENTS} are read")
    return found


def _read_json(content: bytes) -> object:
    found: object = msgspec.json.decode(content)
    return found


def _read_yaml(content: bytes) -> list[object]:
    text = content.decode("utf-8")
    sizes = _Sizes()
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        sizes.take(event)
    return list(yaml.load_all(text, Loader=_ManifestLoader))


def _take_apart(document: object, place: str) -> Iterator[dict[str, Any]]:
    if not isinstance(document, dict):
        raise ManifestError(f"{place} is no object with apiVersion and kind")
    items = document.get("items")
    if document.get("kind") != "List" or not isinstance(items, list):
        yield document
        return
    if len(items) > MAX_DOCUMENTS:
        raise ManifestError(f"it has {len(items)} objects, at most {MAX_DOCUMENTS} are read")
    for number, item in enumerate(items, 1):
        if isinstance(item, dict) and item.get("kind") == "List":
            raise ManifestError(f"{place}, item {number} is a list in a list")
        yield from _take_apart(item, f"{place}, item {number}")


def _check_depth(documents: list[dict[str, Any]]) -> None:
    level: list[Any] = list(documents)
    for _ in range(MAX_DEPTH + 1):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
    if level:
        raise _too_deep()


def _too_deep() -> ManifestError:
    return ManifestError(f"its values are nested more than {MAX_DEPTH} levels deep")


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:MAX_SHOWN]


# --- YAML ---------------------------------------------------------------------------------------


class _ManifestLoader(yaml.CSafeLoader):
    """Reads YAML as the API server does: no dates, no numbers in base 60, no repeated keys."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:  # noqa: ANN401, FBT001, FBT002 - as inherited
        """Return a map; its keys are texts, as in JSON."""
        check_keys(node)
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
                key.tag = _TEXT
        found: dict[Any, Any] = super().construct_mapping(node, deep)
        return found


_CORE: Final = "tag:yaml.org,2002:"
_TEXT: Final = _CORE + "str"
_MERGE: Final = _CORE + "merge"
_BASE_60: Final = re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?\Z")


def _plain_resolvers() -> dict[str, list[Any]]:
    """Return the rules for values without quotes, without those of dates and of base 60."""
    kept: dict[str, list[Any]] = {}
    dropped = {_CORE + "timestamp", _CORE + "value"}
    for first, rules in yaml.CSafeLoader.yaml_implicit_resolvers.items():
        texts = [(_TEXT, _BASE_60)] if first in "-+0123456789" else []
        kept[first] = [*texts, *(rule for rule in rules if rule[0] not in dropped)]
    return kept


_ManifestLoader.yaml_implicit_resolvers = _plain_resolvers()


class _Sizes:
    """Counts what a text stands for, aliases included, before anything is made of it."""

    def __init__(self) -> None:
        self._total = 0
        self._of_anchors: dict[str, int] = {}
        self._open: list[tuple[str | None, int]] = []

    def take(self, event: yaml.Event) -> None:
        """Count the next part of the text.

        Raises:
            ManifestError: It stands for too much, or is too deep, or an alias names nothing.
        """
        match event:
            case yaml.DocumentStartEvent():
                self._of_anchors.clear()
                self._total += _NODE_CHARS
            case yaml.CollectionStartEvent():
                self._open.append((event.anchor, self._total))
                if len(self._open) > MAX_DEPTH:
                    raise _too_deep()
                self._total += _NODE_CHARS
            case yaml.CollectionEndEvent():
                anchor, before = self._open.pop()
                self._note(anchor, self._total - before)
            case yaml.ScalarEvent():
                size = len(event.value) + _NODE_CHARS
                self._total += size
                self._note(event.anchor, size)
            case yaml.AliasEvent():
                if event.anchor not in self._of_anchors:  # or it stands inside of what it names
                    name = str(event.anchor)[:MAX_SHOWN]
                    raise ManifestError(f"alias {name} names nothing that stands before it")
                self._total += self._of_anchors[event.anchor]
            case _:
                pass
        if self._total > MAX_EXPANDED:
            raise ManifestError("it is too large, with what its aliases stand for")

    def _note(self, anchor: str | None, size: int) -> None:
        if anchor is not None:
            self._of_anchors[anchor] = size
