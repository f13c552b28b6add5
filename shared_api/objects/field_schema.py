"""Describes fields for the CRDs: their meaning, their limits, how lists merge.

The CRDs are generated from the types under `objects` (`shared_api.crds`), so what only the CRD
needs is declared at the field, as `Annotated[str, text("...", longest=253)]`. None of it is checked
while decoding: the API server has done that, an object that was stored under an older, less strict
CRD must not become invisible, and 100,000 units are decoded at startup.

Every string, list and map needs a limit: it keeps objects small, and the API server multiplies the
limits to estimate the cost of CEL rules.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Meta

INT32_MAX: Final = 2**31 - 1
INT32_MIN: Final = -(2**31)

SUBDOMAIN_LENGTH: Final = 253
"""Longest name of most objects (RFC 1123 subdomain)."""
LABEL_LENGTH: Final = 63
"""Longest name of a namespace, longest value of a label (RFC 1123 label)."""
QUALIFIED_NAME_LENGTH: Final = 317
"""Longest `prefix/name`: 253 + 1 + 63."""
UID_LENGTH: Final = 128
"""Longest UID. All known ones are UUIDs of 36 characters, but Kubernetes guarantees no format."""
MESSAGE_LENGTH: Final = 32768
"""Longest message of a `metav1.Condition`."""
DNS_LABEL: Final = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"

REQUIRED: Final = Meta(extra={"required": True})
"""Marks a list or a part as required, beside what describes it."""

Rule = dict[str, str]
"""One entry of `x-kubernetes-validations`."""


def text(
    description: str,
    *,
    longest: int,
    pattern: str | None = None,
    choices: tuple[str, ...] = (),
    required: bool = False,
    defaulted: bool = False,
) -> Meta:
    """Describe a string; `defaulted` makes the struct's default the CRD's."""
    schema: dict[str, Any] = {"enum": list(choices)} if choices else {"maxLength": longest}
    if pattern is not None:
        schema["pattern"] = pattern
    return _meta(description, schema, required=required, defaulted=defaulted)


def moment(description: str) -> Meta:
    """Describe a time; the format bounds its length."""
    return _meta(description, {"format": "date-time"})


def int32(
    description: str,
    *,
    least: int = 0,
    most: int = INT32_MAX,
    required: bool = False,
    defaulted: bool = False,
) -> Meta:
    """Describe an int32 from `least` to `most`."""
    schema = {"format": "int32", "minimum": least, "maximum": most}
    return _meta(description, schema, required=required, defaulted=defaulted)


def int64(description: str, *, least: int | None = 0, required: bool = False) -> Meta:
    """Describe an int64 from `least` up; its own bounds have no exact form in a schema."""
    schema: dict[str, Any] = {"format": "int64"}
    if least is not None:
        schema["minimum"] = least
    return _meta(description, schema, required=required)


def flag(description: str) -> Meta:
    """Describe a boolean."""
    return _meta(description, {})


def part(
    description: str | None = None,
    *,
    default: dict[str, str] | None = None,
    atomic: bool = False,
) -> Meta:
    """Describe a nested object; without a description, its docstring is used.

    With `atomic`, server-side apply replaces it as a whole.
    """
    schema: dict[str, Any] = {} if default is None else {"default": default}
    if atomic:
        schema["x-kubernetes-map-type"] = "atomic"
    return _meta(description, schema)


def entries(description: str, *, most: int) -> Meta:
    """Describe a map of at most `most` keys."""
    return _meta(description, {"maxProperties": most})


def items(
    description: str,
    *,
    most: int,
    least: int = 0,
    key: str | None = None,
    by_item: bool = False,
    unique: bool = False,
    rules: tuple[Rule, ...] = (),
) -> Meta:
    """Describe a list of at most `most` items.

    Args:
        description: The meaning of the list.
        most: Most items.
        least: Fewest items, if the list is present.
        key: The property that identifies an item: no two items have the same.
        by_item: Whether several programs write items of the list, each its own: server-side apply
            then merges by `key`. Otherwise it replaces the list as a whole, so that the API server
            does not note who wrote which field of each item.
        unique: Whether the list is a set of scalars.
        rules: CEL rules on the list.
    """
    schema: dict[str, Any] = {"maxItems": most}
    if least:
        schema["minItems"] = least
    if by_item:
        assert key is not None, f"items are merged by a key: {description}"
        schema["x-kubernetes-list-type"] = "map"
        schema["x-kubernetes-list-map-keys"] = [key]
    else:
        schema["x-kubernetes-list-type"] = "set" if unique else "atomic"
        if key is not None:  # the API server checks it by itself only where it merges by it
            rules = (*rules, _no_two_with_the_same(key))
    if rules:
        schema["x-kubernetes-validations"] = list(rules)
    return _meta(description, schema)


def rules(*checks: Rule) -> Meta:
    """Attach CEL rules to a type."""
    return Meta(extra_json_schema={"x-kubernetes-validations": list(checks)})


def rule(expression: str, message: str, *, field_path: str | None = None) -> Rule:
    """Return a CEL rule; errors point to `field_path`, relative to the node with the rule."""
    checked = {"rule": expression, "message": message}
    return checked if field_path is None else {**checked, "fieldPath": field_path}


def _no_two_with_the_same(key: str) -> Rule:
    expression = f"self.all(one, self.exists_one(other, other.{key} == one.{key}))"
    return rule(expression, f"no two items may have the same {key}")


def _meta(
    description: str | None,
    schema: dict[str, Any],
    *,
    required: bool = False,
    defaulted: bool = False,
) -> Meta:
    return Meta(
        description=description,
        extra_json_schema=schema,
        extra={"required": required, "defaulted": defaulted},
    )
