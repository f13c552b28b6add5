"""Structural schemas of custom resources: pruning, defaulting, and validation.

`compile_schema` turns an `openAPIV3Schema` into `Schema` nodes once per CRD. For each write,
`Schema.normalise` drops nulls and unknown fields and sets defaults, and `Schema.check` collects the
causes, with their paths and the texts of the real server.

Nearly every write is valid, so `Schema.accepts` checks first, without building a path or a text;
only what it does not accept is normalized and checked.

All of them skip parts that are the same object as in the stored version (`patching` keeps
identities), so a status write does not cost a check of the spec. As a consequence, a part that was
stored before the schema was tightened does not block other writes (ratcheting in the real server).

Not here: CEL rules (`x-kubernetes-validations`) are accepted and **not evaluated**; `pattern` is
matched by Python's `re` instead of RE2; of the formats, only date-time, date, and int32 are
checked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from shared_api.fake_api_server.api_errors import Cause, invalid_value, required
from shared_api.fake_api_server.patching import Body, JsonValue

_TYPE_INVALID: Final = "FieldValueTypeInvalid"
_INT32: Final = range(-(2**31), 2**31)
_DATE_TIME: Final = re.compile(r"^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$")
_FLAGS_AFTER_START: Final = re.compile(r"\^\(\?([ims]+)\)(.*)", re.DOTALL)
_FORMATS: Final[Mapping[str, re.Pattern[str]]] = {
    "date-time": _DATE_TIME,
    "date": re.compile(r"^\d{4}-\d\d-\d\d$"),
}
_PYTHON_TYPES: Final[Mapping[str, set[type]]] = {
    "string": {str},
    "integer": {int},
    "number": {int, float},
    "boolean": {bool},
    "object": {dict},
    "array": {list},
    "": {str, int, float, bool, dict, list},
}
_NOTHING: Final[Body] = {}
_ROOT_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata"})


class ObjectSchema:
    """One node of a compiled schema."""

    __slots__ = (
        "_additional",
        "_all_of",
        "_any_of",
        "_bounds",
        "_closed",
        "_defaults",
        "_enum",
        "_format",
        "_has_junctions",
        "_int_or_string",
        "_is_plain",
        "_items",
        "_list_keys",
        "_list_type",
        "_needed",
        "_pattern",
        "_pattern_text",
        "_properties",
        "_required",
        "_type",
        "_types",
        "default",
        "has_default",
        "nullable",
    )

    def __init__(self, source: Mapping[str, JsonValue], *, free: frozenset[str]) -> None:
        """Compile a node; `free` are fields that are neither pruned nor checked here."""
        self._type: str = source.get("type", "")
        self._int_or_string = bool(source.get("x-kubernetes-int-or-string"))
        self.nullable = bool(source.get("nullable"))
        self.has_default = "default" in source
        self.default: JsonValue = source.get("default")
        self._properties: dict[str, ObjectSchema] = {
            name: _compile_child(child) or ObjectSchema({}, free=frozenset())
            for name, child in source.get("properties", {}).items()
            if name not in free
        }
        self._defaults = [name for name, child in self._properties.items() if child.has_default]
        self._required: list[str] = [n for n in source.get("required", ()) if n not in free]
        self._needed = {*self._required, *self._defaults}
        additional = source.get("additionalProperties")
        self._additional = (
            ObjectSchema(additional, free=_free_fields(additional))
            if isinstance(additional, dict)
            else None
        )
        self._closed = (
            None
            if source.get("x-kubernetes-preserve-unknown-fields") or additional
            else free | self._properties.keys()
        )
        items = source.get("items")
        self._items = _compile_child(items)
        self._list_type: str = source.get("x-kubernetes-list-type", "")
        self._list_keys: list[str] = source.get("x-kubernetes-list-map-keys", [])
        self._enum: list[JsonValue] | None = source.get("enum")
        self._format: str = source.get("format", "")
        self._pattern_text: str = source.get("pattern", "")
        self._pattern = _compile_pattern(self._pattern_text)
        self._bounds = {name: source[name] for name in _BOUNDS if name in source}
        self._all_of = [ObjectSchema(one, free=frozenset()) for one in source.get("allOf", ())]
        self._any_of = [ObjectSchema(one, free=frozenset()) for one in source.get("anyOf", ())]
        self._types = self._python_types()
        # An int-or-string also has an anyOf; checking the Python types is enough.
        self._has_junctions = bool(
            self._enum or self._all_of or (self._any_of and not self._int_or_string)
        )
        self._is_plain = not (self._has_junctions or self._format or self._pattern or self._bounds)

    def _python_types(self) -> frozenset[type]:
        """Return the types that need no further check; a float may still be a whole number."""
        types = {int, str} if self._int_or_string else _PYTHON_TYPES.get(self._type, set())
        return frozenset(types | ({type(None)} if self.nullable else set()))

    def accepts(self, value: JsonValue, old: JsonValue) -> bool:
        """Return True only if there is nothing to drop, to default, or to refuse."""
        if value is old and value is not None:
            return True
        kind = type(value)
        if kind not in self._types:
            return False
        if kind is dict:
            return self._accepts_object(value, old if isinstance(old, dict) else _NOTHING)
        if kind is list:
            return self._accepts_list(value, old if isinstance(old, list) else [])
        if self._is_plain:
            return True
        if kind is str and not self._format:
            return self._accepts_text(value)
        return not self.problems(value)

    def _accepts_text(self, value: str) -> bool:
        if self._enum is not None and value not in self._enum:
            return False
        bounds = self._bounds
        if bounds and not bounds.get("minLength", 0) <= len(value) <= bounds.get(
            "maxLength", len(value)
        ):
            return False
        return self._pattern is None or self._pattern.search(value) is not None

    def problems(self, value: JsonValue) -> list[Cause]:
        """Return what is invalid in a value, without paths."""
        causes: list[Cause] = []
        self.check(value, None, "", causes)
        return causes

    def _accepts_object(self, value: Body, old: Body) -> bool:
        if self._has_junctions or not value.keys() >= self._needed:
            return False
        if self._bounds and not self._fits_size(value, "Properties"):
            return False
        properties, additional = self._properties, self._additional
        for name, item in value.items():
            child = properties.get(name, additional)
            if child is None:
                if self._closed is not None and name not in self._closed:
                    return False
            elif not child.accepts(item, old.get(name)):
                return False
        return True

    def _accepts_list(self, value: list[JsonValue], old: list[JsonValue]) -> bool:
        if self._has_junctions or (self._bounds and not self._fits_size(value, "Items")):
            return False
        if self._list_type in {"map", "set"} and len(value) > 1:
            causes: list[Cause] = []
            self._check_unique(value, "", causes)
            if causes:
                return False
        items = self._items
        return items is None or all(
            items.accepts(item, _at(old, i)) for i, item in enumerate(value)
        )

    def _fits_size(self, value: Body | list[JsonValue], what: str) -> bool:
        least, most = self._bounds.get(f"min{what}", 0), self._bounds.get(f"max{what}", len(value))
        return bool(least <= len(value) <= most)

    # ------------------------------------------------------------------ pruning and defaulting

    def normalise(
        self, value: JsonValue, old: JsonValue, path: str, unknown: list[str]
    ) -> JsonValue:
        """Return the value with defaults and without nulls and unknown fields.

        Args:
            value: as received.
            old: the stored value, or None; parts identical to it are returned unchanged.
            path: of the value, "" for the root.
            unknown: receives the path of each field that is dropped because the schema lacks it.
        """
        if value is old and value is not None:
            return value
        if isinstance(value, dict):
            return self._normalise_object(
                value, old if isinstance(old, dict) else {}, path, unknown
            )
        if isinstance(value, list) and self._items is not None:
            earlier = old if isinstance(old, list) else []
            new = [
                self._items.normalise(item, _at(earlier, i), f"{path}[{i}]", unknown)
                for i, item in enumerate(value)
            ]
            return value if all(a is b for a, b in zip(new, value, strict=True)) else new
        return value

    def _normalise_object(self, value: Body, old: Body, path: str, unknown: list[str]) -> Body:
        result: Body | None = None
        for name, item in value.items():
            child = self._properties.get(name, self._additional)
            where = f"{path}.{name}" if path else name
            if child is None:
                if self._closed is not None and name not in self._closed:
                    unknown.append(where)
                    result = dict(value) if result is None else result
                    del result[name]
                continue
            if item is None and not child.nullable:
                result = dict(value) if result is None else result
                del result[name]
                continue
            before = old.get(name)
            new = (
                item
                if child.accepts(item, before)
                else child.normalise(item, before, where, unknown)
            )
            if new is not item:
                result = dict(value) if result is None else result
                result[name] = new
        for name in self._defaults:
            if name not in (value if result is None else result):
                result = dict(value) if result is None else result
                child = self._properties[name]
                # The default value may itself lack fields that have defaults.
                result[name] = child.normalise(child.default, None, name, [])
        return value if result is None else result

    # ---------------------------------------------------------------------------- validation

    def check(self, value: JsonValue, old: JsonValue, path: str, causes: list[Cause]) -> None:
        """Append what is invalid in a normalized value; parts identical to `old` are skipped."""
        if value is old and value is not None:
            return
        if value is None and self.nullable:
            return
        if not self._check_type(value, path, causes):
            return
        if self._enum is not None and value not in self._enum:
            choices = ", ".join(f'"{choice}"' for choice in self._enum)
            text = f'Unsupported value: "{value}": supported values: {choices}'
            causes.append(Cause(path, "FieldValueNotSupported", text))
        if isinstance(value, str):
            self._check_text(value, path, causes)
        elif isinstance(value, dict):
            self._check_object(value, old, path, causes)
        elif isinstance(value, list):
            self._check_list(value, old, path, causes)
        elif not isinstance(value, bool):
            self._check_number(value, path, causes)
        if self._all_of or self._any_of:
            self._check_junctions(value, path, causes)

    def _check_type(self, value: JsonValue, path: str, causes: list[Cause]) -> bool:
        got = _type_name(value)
        if self._int_or_string:
            fits, wanted = got in {"integer", "string"}, "integer,string"
        elif self._type == "number":
            fits, wanted = got in {"integer", "float64"}, "number"
        else:
            fits, wanted = not self._type or got == self._type, self._type
        if not fits:
            text = f'Invalid value: "{got}": {path} in body must be of type {wanted}: "{got}"'
            causes.append(Cause(path, _TYPE_INVALID, text))
            if got == "float64" and self._format == "int32":
                causes.append(_not_int32(path))
        return fits

    def _check_text(self, value: str, path: str, causes: list[Cause]) -> None:
        expected = _FORMATS.get(self._format)
        if expected is not None and not expected.match(value):
            why = f'{path} in body must be of type {self._format}: "{value}"'
            text = f'Invalid value: "{value}": {why}'
            causes.append(Cause(path, _TYPE_INVALID, text))
        # As in the real server, only the first of these three that fails is reported.
        longest, shortest = self._bounds.get("maxLength"), self._bounds.get("minLength", 0)
        if longest is not None and len(value) > longest:
            text = f"Too long: may not be more than {longest} bytes"
            causes.append(Cause(path, "FieldValueTooLong", text))
        elif len(value) < shortest:
            why = f"{path} in body should be at least {shortest} chars long"
            causes.append(invalid_value(path, value, why))
        elif self._pattern is not None and not self._pattern.search(value):
            why = f"{path} in body should match '{self._pattern_text}'"
            causes.append(invalid_value(path, value, why))

    def _check_number(self, value: float, path: str, causes: list[Cause]) -> None:
        if self._format == "int32" and value not in _INT32:
            causes.append(_not_int32(path))
        bounds = self._bounds
        if "minimum" in bounds and value < bounds["minimum"]:
            why = f"{path} in body should be greater than or equal to {bounds['minimum']}"
            causes.append(invalid_value(path, value, why))
        if "maximum" in bounds and value > bounds["maximum"]:
            why = f"{path} in body should be less than or equal to {bounds['maximum']}"
            causes.append(invalid_value(path, value, why))

    def _check_object(self, value: Body, old: JsonValue, path: str, causes: list[Cause]) -> None:
        prefix = f"{path}." if path else ""
        causes.extend(required(prefix + name) for name in self._required if name not in value)
        self._check_size(value, path, causes, "Properties", "properties")
        before = old if isinstance(old, dict) else {}
        for name, item in value.items():
            child = self._properties.get(name, self._additional)
            if child is not None and not child.accepts(item, before.get(name)):
                child.check(item, before.get(name), prefix + name, causes)

    def _check_list(
        self, value: list[JsonValue], old: JsonValue, path: str, causes: list[Cause]
    ) -> None:
        self._check_size(value, path, causes, "Items", "items")
        before = old if isinstance(old, list) else []
        if self._items is not None:
            for i, item in enumerate(value):
                self._items.check(item, _at(before, i), f"{path}[{i}]", causes)
        if self._list_type in {"map", "set"}:
            self._check_unique(value, path, causes)

    def _check_size(
        self, value: Body | list[JsonValue], path: str, causes: list[Cause], what: str, word: str
    ) -> None:
        most, least = self._bounds.get(f"max{what}"), self._bounds.get(f"min{what}", 0)
        if most is not None and len(value) > most:
            text = f"Too many: {len(value)}: must have at most {most} items"
            causes.append(Cause(path, "FieldValueTooMany", text))
        if len(value) < least:
            why = f"{path} in body should have at least {least} {word}"
            causes.append(invalid_value(path, len(value), why))

    def _check_unique(self, value: list[JsonValue], path: str, causes: list[Cause]) -> None:
        seen: list[JsonValue] = []
        for i, item in enumerate(value):
            identity = (
                {key: item.get(key) for key in self._list_keys} if isinstance(item, dict) else item
            )
            if identity in seen:
                duplicate = invalid_value("", identity, "").message.split(": ")[1]
                text = f"Duplicate value: {duplicate}"
                causes.append(Cause(f"{path}[{i}]", "FieldValueDuplicate", text))
            seen.append(identity)

    def _check_junctions(self, value: JsonValue, path: str, causes: list[Cause]) -> None:
        for one in self._all_of:
            one.check(value, None, path, causes)
        if self._any_of and not any(not one.problems(value) for one in self._any_of):
            why = f'"{path}" must validate at least one schema (anyOf)'
            causes.append(invalid_value(path, "", why))


_BOUNDS: Final = (
    *("minimum", "maximum", "minLength", "maxLength"),
    *("minItems", "maxItems", "minProperties", "maxProperties"),
)


def compile_schema(source: Mapping[str, JsonValue]) -> ObjectSchema:
    """Compile the `openAPIV3Schema` of a CRD version; `metadata` is not part of it."""
    return ObjectSchema(source, free=_ROOT_FIELDS)


def joined_unknown(unknown: Sequence[str]) -> str:
    """Return the text of a strict decoding error."""
    return ", ".join(f'unknown field "{path}"' for path in sorted(unknown))


def _not_int32(path: str) -> Cause:
    why = f"Checked value must be of type integer with format int32 in {path}"
    # The real server names no field here either.
    return invalid_value("<nil>", "", why)


def _at(items: list[JsonValue], i: int) -> JsonValue:
    return items[i] if i < len(items) else None


def _compile_child(source: JsonValue) -> ObjectSchema | None:
    return ObjectSchema(source, free=_free_fields(source)) if isinstance(source, dict) else None


def _free_fields(source: Mapping[str, JsonValue]) -> frozenset[str]:
    return _ROOT_FIELDS if source.get("x-kubernetes-embedded-resource") else frozenset()


def _compile_pattern(text: str) -> re.Pattern[str] | None:
    """Return the pattern, None for none. RE2 allows `^(?i)...`; Python requires flags first."""
    flagged = _FLAGS_AFTER_START.fullmatch(text)
    if flagged is not None:
        return re.compile(f"^(?{flagged[1]}:{flagged[2]})")
    return re.compile(text) if text else None


def _type_name(value: JsonValue) -> str:
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "float64"
        case str():
            return "string"
        case dict():
            return "object"
        case list():
            return "array"
        case _:
            return "null"
