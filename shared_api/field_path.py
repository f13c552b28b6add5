"""Paths to fields of objects, in a small part of Kubernetes' JSONPath. Pure.

    .spec.replicas
    .spec.groups[0].template
    .metadata.annotations['example.com/size']
    .status.conditions[?(@.type=="Complete")].status

A leading `$` and enclosing braces are allowed. A filter selects the first item that matches. There
are no wildcards: a path names one field.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

_STEP: Final = re.compile(
    r"""
    \.(?P<name>[A-Za-z0-9_][A-Za-z0-9_-]*)
    | \[(?P<index>[0-9]+)\]
    | \[(?P<quote>['"])(?P<quoted>[^'"]+)(?P=quote)\]
    | \[\?\(\s*@\.(?P<field>[A-Za-z_][A-Za-z0-9_]*)\s*==\s*
        (?P<mark>['"])(?P<value>[^'"]*)(?P=mark)\s*\)\]
    """,
    re.VERBOSE,
)


class FieldPathError(ValueError):
    """The text is not a valid path; the message says from where on."""


class _Named(msgspec.Struct, frozen=True):
    name: str


class _Numbered(msgspec.Struct, frozen=True):
    index: int


class _Where(msgspec.Struct, frozen=True):
    field: str
    value: str


_Step = _Named | _Numbered | _Where


class FieldPath(msgspec.Struct, frozen=True):
    """The path of a field in an object."""

    text: str
    steps: tuple[_Step, ...]

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names along the path; None if it goes through a list."""
        names = tuple(each.name for each in self.steps if isinstance(each, _Named))
        return names if len(names) == len(self.steps) else None

    def read(self, body: object) -> Any:  # noqa: ANN401 - whatever stands there
        """Return the value of the field; None if there is none."""
        for step in self.steps:
            body = _take(step, body)
            if body is None:
                return None
        return body

    def patch(self, value: object) -> dict[str, Any]:
        """Return the merge patch that sets the field.

        Raises:
            FieldPathError: The path goes through a list, which a merge patch replaces as a whole.
        """
        names = self.names
        if names is None:
            raise FieldPathError(f"{self.text}: a field in a list cannot be set")
        patch: Any = value
        for name in reversed(names):
            patch = {name: patch}
        return dict(patch)


def parse_path(text: str) -> FieldPath:
    """Return the path that a text describes.

    Raises:
        FieldPathError: The text is not a valid path.
    """
    rest = text.strip()
    if rest.startswith("{") and rest.endswith("}"):
        rest = rest[1:-1].strip()
    rest = rest.removeprefix("$")
    if rest and rest[0] not in ".[":
        rest = f".{rest}"
    steps: list[_Step] = []
    while rest:
        found = _STEP.match(rest)
        if found is None:
            raise FieldPathError(f"{text!r} is no path to a field: {rest!r} cannot be read")
        steps.append(_step_of(found))
        rest = rest[found.end() :]
    if not steps:
        raise FieldPathError(f"{text!r} is no path to a field: it names none")
    return FieldPath(text, tuple(steps))


def _step_of(found: re.Match[str]) -> _Step:
    if found["index"] is not None:
        return _Numbered(int(found["index"]))
    if found["field"] is not None:
        return _Where(found["field"], found["value"])
    return _Named(found["name"] or found["quoted"])


def _take(step: _Step, body: object) -> Any:  # noqa: ANN401 - whatever stands there
    match step:
        case _Named(name=name):
            return body.get(name) if isinstance(body, dict) else None
        case _Numbered(index=index):
            return body[index] if isinstance(body, list) and index < len(body) else None
        case _Where(field=field, value=value):
            items = body if isinstance(body, list) else []
            maps = (each for each in items if isinstance(each, dict))
            return next((each for each in maps if each.get(field) == value), None)
