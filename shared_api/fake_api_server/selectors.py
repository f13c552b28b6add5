"""Label and field selectors, parsed into predicates.

A selector is parsed once per list or watch and evaluated once per object, so `parse_*` returns
closures. None selects every object.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from shared_api.fake_api_server.api_errors import bad_request
from shared_api.fake_api_server.patching import Body, JsonValue

LabelPredicate: TypeAlias = Callable[[Mapping[str, str]], bool]
BodyPredicate: TypeAlias = Callable[[Body], bool]
FieldPath: TypeAlias = tuple[str, ...]

_REQUIREMENTS: Final = re.compile(r"[^,(]*(?:\([^)]*\))?[^,(]*")
_SET: Final = re.compile(r"^(\S+)\s+(in|notin)\s*\(([^)]*)\)$")
_COMPARISON: Final = re.compile(r"^([^\s=!<>]+)\s*(==|=|!=|>|<)\s*(\S*)$")
_KEY: Final = re.compile(r"^(!?)\s*([A-Za-z0-9][-A-Za-z0-9_./]*)$")


def parse_label_selector(text: str) -> LabelPredicate | None:
    """Return the predicate of `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>5`; None selects all.

    Raises:
        RequestFailed: 400, it cannot be parsed.
    """
    parts = [part.strip() for part in _REQUIREMENTS.findall(text)]
    predicates = [_label_requirement(part) for part in parts if part]
    if not predicates:
        return None
    if len(predicates) == 1:
        return predicates[0]
    return lambda labels: all(holds(labels) for holds in predicates)


def _label_requirement(text: str) -> LabelPredicate:
    if found := _SET.match(text):
        key, operator, values = found.groups()
        return _in_set(key, frozenset(value.strip() for value in values.split(",")), operator)
    if found := _COMPARISON.match(text):
        return _comparison(*found.groups())
    if found := _KEY.match(text):
        key = found[2]
        if found[1]:
            return lambda labels: key not in labels
        return lambda labels: key in labels
    raise bad_request(f"unable to parse requirement: {text}")


def _in_set(key: str, values: frozenset[str], operator: str) -> LabelPredicate:
    if operator == "in":
        return lambda labels: labels.get(key) in values
    return lambda labels: labels.get(key) not in values


def _comparison(key: str, operator: str, value: str) -> LabelPredicate:
    if operator in {"=", "=="}:
        return lambda labels: labels.get(key) == value
    if operator == "!=":
        # Also matches objects without the label, as in Kubernetes.
        return lambda labels: labels.get(key) != value
    if not value.removeprefix("-").isdecimal():
        raise bad_request(f"for 'Gt', 'Lt' operators, the value must be an integer: {value}")
    bound, sign = int(value), 1 if operator == ">" else -1

    def beyond(labels: Mapping[str, str]) -> bool:
        text = labels.get(key, "")
        return text.removeprefix("-").isdecimal() and sign * (int(text) - bound) > 0

    return beyond


def parse_field_selector(text: str, selectable: Mapping[str, FieldPath]) -> BodyPredicate | None:
    """Return the predicate of `metadata.name=a,spec.queue!=b`; None selects all.

    Args:
        text: the selector.
        selectable: the fields that this kind can be selected by, with their paths.

    Raises:
        RequestFailed: 400, it cannot be parsed or has another field.
    """
    predicates = [_field_requirement(part, selectable) for part in text.split(",") if part]
    if not predicates:
        return None
    if len(predicates) == 1:
        return predicates[0]
    return lambda body: all(holds(body) for holds in predicates)


def _field_requirement(text: str, selectable: Mapping[str, FieldPath]) -> BodyPredicate:
    field, operator, value = _split_field(text)
    path = selectable.get(field)
    if path is None:
        raise bad_request(f"field label not supported: {field}")
    if operator == "!=":
        return lambda body: field_text(body, path) != value
    return lambda body: field_text(body, path) == value


def _split_field(text: str) -> tuple[str, str, str]:
    for operator in ("!=", "==", "="):
        field, found, value = text.partition(operator)
        if found:
            return field.strip(), operator, value.strip()
    raise bad_request(f"invalid field selector: {text!r}; can't understand {text!r}")


def field_text(body: Body, path: FieldPath) -> str:
    """Return a field as text for a selector: "" if absent; "true" and "5" for other types."""
    value: JsonValue = body
    for key in path:
        if not isinstance(value, dict):
            return ""
        value = value.get(key)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
