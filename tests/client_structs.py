"""Generates the structs of `koord_queue/answers` from the contracts of the debug APIs.

    python -m tests.client_structs

`make openapi` runs this after it has written the contracts; a test fails for a stale module. Each
field has a default, so that answers of older servers can be read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

Schemas = Mapping[str, Any]

ROOT: Final = Path(__file__).resolve().parents[1]
CONTRACTS: Final = (
    "queue_controllers/debug_api/openapi.json",
    "queue_insight/debug_api/openapi.json",
)
ANSWERS: Final = ROOT / "koord_queue" / "answers"

MODULES: Final = {
    "refusal": ("Why a unit waits.", ("RefusalView",)),
    "forecast": ("When units start and end.", ("ForecastView", "QueueForecastView")),
    "budget_forecasts": ("When budgets are spent.", ("BudgetForecastPage",)),
    "explanation": ("Why a unit waits, and what would start it.", ("ExplainView",)),
    "tried": ("What becomes of a manifest that is submitted now.", ("TryView",)),
    "what_if": ("What follows from edits.", ("WhatIfView",)),
    "current_unit": ("Where a unit stands.", ("UnitView",)),
    "queues": ("Where queues stand.", ("QueueView", "FairAccountsView")),
    "quotas": ("Quotas with their numbers.", ("QuotaTreePage", "UserLimitPage")),
    "reservations": ("When units must not run.", ("ReservationPage",)),
    "log": ("What was decided.", ("LogView",)),
    "report": ("Who used how much over a time.", ("ReportView",)),
    "jobs": ("Whether a job is managed, as the controllers answer.", ("JobAnswer",)),
}
"""Each module with its summary and the schemas of its answers.

A schema that answers refer to goes into the first module that needs it; later modules import it.
The modules are small because a command imports only those of the answers that it shows.
"""

NAMES: Final = {
    "ExplainView": "Explanation",
    "JobAnswer": "Job",
    "QuotaNodeView": "Quota",
    "TryView": "Tried",
    "UnitView": "CurrentUnit",  # `Unit` adds what older servers say
}
"""Names of structs; any other struct has its schema's name without `View`."""

READ_AS: Final = {"NewUnitView": "ForecastView"}
"""Schemas read as another one that has all their fields, so that one function shows both."""

DEFAULTS: Final = {
    ("ChangeView", "practical"): "True",  # older servers do not set such changes apart
    ("ForecastView", "outlook"): '"times"',  # older servers have no other outlook
    ("QuotaNodeView", "charged"): "None",  # not known of ElasticQuotas, the other source
    ("QuotaNodeView", "scaledMin"): "None",  # the same
    ("WhatIfView", "complete"): "True",  # only a false one is a reason for a warning
}
"""Defaults of fields, as Python text, where neither the contract nor `ZEROS` has the right one."""

TYPES: Final = {
    "boolean": "bool",
    "integer": "int",
    "null": "None",
    "number": "float",
    "string": "str",
}
ZEROS: Final = {
    "bool": "False",
    "dict": "{}",
    "float": "0.0",
    "int": "0",
    "str": '""',
    "tuple": "()",
}

HEAD: Final = '''\
"""{summary}

Generated from the contract of the debug API by `make openapi`; edits are lost.
"""

from __future__ import annotations

{imports}


'''


def read_schemas() -> Schemas:
    """Return the schemas of both contracts. Schemas with the same name are equal."""
    schemas: dict[str, Any] = {}
    for path in CONTRACTS:
        schemas |= json.loads((ROOT / path).read_bytes())["components"]["schemas"]
    return schemas


def build_modules(schemas: Schemas) -> dict[str, str]:
    """Return the text of each of `MODULES`."""
    homes: dict[str, str] = {}
    texts: dict[str, str] = {}
    for module, (summary, roots) in MODULES.items():
        own = list(_needed(roots, schemas, homes, module))
        used = {name for each in own for name in _references(schemas[each])}
        elsewhere = {name for name in used if homes.get(name, module) != module}
        imports = {"koord_queue.answers.decoding": ["Answer"]}
        for name in sorted(elsewhere, key=struct_name):
            imports.setdefault(f"koord_queue.answers.{homes[name]}", []).append(struct_name(name))
        structs = "\n\n".join(build_struct(each, schemas) for each in own)
        typing = "from typing import Any\n\n" if "Any]" in structs else ""
        lines = "\n".join(
            f"from {path} import {', '.join(imports[path])}" for path in sorted(imports)
        )
        texts[module] = HEAD.format(summary=summary, imports=f"{typing}{lines}") + structs
    return texts


def build_struct(name: str, schemas: Schemas) -> str:
    """Return the class of a schema.

    Raises:
        KeyError: The schema has no description, or a field of a type that is not in `TYPES`.
    """
    schema = schemas[name]
    description = schema["description"].replace("\n", "\n    ").replace("\n    \n", "\n\n")
    end = "\n    " if "\n" in description else ""
    lines = [
        f"class {struct_name(name)}(Answer, frozen=True):",
        f'    """{description}{end}"""',
        "",
    ]
    for field, value in schema["properties"].items():
        kind = _type_of(value, schemas)
        default = DEFAULTS.get((name, field)) or _default(value, kind)
        if default == "None" and not kind.endswith("None"):
            kind += " | None"
        lines.append(f"    {_snake_case(field)}: {kind} = {default}")
    return "\n".join((*lines, ""))


def struct_name(schema: str) -> str:
    """Return the name of the class of a schema."""
    return NAMES.get(schema) or schema.removesuffix("View")


def _snake_case(field: str) -> str:
    return re.sub("([A-Z])", r"_\1", field).lower()


def _needed(
    names: Iterable[str], schemas: Schemas, homes: dict[str, str], module: str
) -> Iterator[str]:
    """Yield the schemas of new structs, dependencies first, and note their module in `homes`."""
    for name in names:
        if name not in homes and "properties" in schemas[name]:
            homes[name] = module
            yield from _needed(_references(schemas[name]), schemas, homes, module)
            yield name


def _references(value: object) -> Iterator[str]:
    """Yield the names of the schemas that a part of a schema refers to."""
    if isinstance(value, dict):
        if "$ref" in value:
            yield _referred(value)
        for each in value.values():
            yield from _references(each)
    elif isinstance(value, list):
        for each in value:
            yield from _references(each)


def _referred(value: Mapping[str, str]) -> str:
    name = value["$ref"].rpartition("/")[2]
    return READ_AS.get(name, name)


def _type_of(value: Mapping[str, Any], schemas: Schemas) -> str:
    """Return the annotation of a field. An enumeration is `str`: newer servers may add values."""
    if "$ref" in value:
        schema = schemas[_referred(value)]
        has_fields = "properties" in schema
        return struct_name(_referred(value)) if has_fields else _type_of(schema, schemas)
    if "anyOf" in value:
        return " | ".join(_type_of(each, schemas) for each in value["anyOf"])
    if value["type"] == "array":
        return f"tuple[{_type_of(value['items'], schemas)}, ...]"
    if value["type"] == "object":
        values = value["additionalProperties"]
        return f"dict[str, {'Any' if values is True else _type_of(values, schemas)}]"
    return TYPES[value["type"]]


def _default(value: Mapping[str, Any], kind: str) -> str:
    """Return the default of a field: the contract's, else None if allowed, else the empty value."""
    if default := value.get("default"):
        return json.dumps(default) if isinstance(default, str) else repr(default)
    if kind.endswith("| None"):
        return "None"
    return ZEROS.get(kind.partition("[")[0]) or f"{kind}()"


def main() -> None:
    """Write the modules."""
    for module, text in build_modules(read_schemas()).items():
        (ANSWERS / f"{module}.py").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
