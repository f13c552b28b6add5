"""values.schema.json and the README's table, from the comments in the chart's values.yaml.

    python -m tests.charts.values_reference --write
    python -m tests.charts.values_reference --check

A value without a comment is an error, and so is a list or an empty map without a description of its
content: the schema is closed, so that a typo fails before anything is installed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from queue_controllers.configuration import ExtensionOptions, GeneralOptions
from queue_scheduler.configuration import KoordQueueConfiguration
from queue_scheduler.plugins.elastic_quota_arguments import ElasticQuotaArguments
from queue_scheduler.plugins.elastic_quota_tree_arguments import ElasticQuotaTreeArguments
from queue_scheduler.plugins.resource_quota_arguments import ResourceQuotaArguments
from shared_api.crd_schema import QUANTITY

CHART: Final = Path(__file__).resolve().parents[2] / "charts" / "koord-queue"
# Helm below 3.18 supports no newer draft. In this one, keys next to a $ref are ignored.
DRAFT: Final = "http://json-schema.org/draft-07/schema#"
REFERENCE: Final = "#/definitions/{name}"
TABLE_BEGIN: Final = "<!-- Made from values.yaml by `make schema`. -->\n"
TABLE_END: Final = "<!-- End of what is made. -->\n"

Schema = dict[str, Any]

TYPES: Final = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}
# An annotation with one of these describes the type completely.
TYPE_WORDS: Final = frozenset(("type", "enum", "$ref"))


class UndescribedValue(Exception):
    """A value with a missing or incomplete comment; the message names it and its line."""


@dataclass(frozen=True, kw_only=True)
class Value:
    """One key of values.yaml."""

    path: tuple[str, ...]
    default: Any
    description: str
    annotation: Schema
    """What "@schema" adds to the schema of the default."""
    children: tuple[Value, ...] = ()
    """The keys of a map that is described key by key."""


# ------------------------------------------------------------------------------ values.yaml


def read_values(text: str) -> tuple[Value, ...]:
    """Return the keys of a values.yaml in order, with their comments.

    Raises:
        UndescribedValue: A comment is missing or incomplete.
    """
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode), "a chart's values are a map"
    return tuple(_read_map(root, (), text.splitlines()))


def _read_map(node: yaml.MappingNode, path: tuple[str, ...], lines: list[str]) -> Iterator[Value]:
    for key, content in node.value:
        where = (*path, key.value)
        description, annotation = _read_comment(lines, key.start_mark.line)
        children: tuple[Value, ...] = ()
        if isinstance(content, yaml.MappingNode) and content.value and "$ref" not in annotation:
            children = tuple(_read_map(content, where, lines))
        value = Value(
            path=where,
            default=_construct(content),
            description=description,
            annotation=annotation,
            children=children,
        )
        _check_described(value, key.start_mark.line + 1)
        yield value


def _construct(node: yaml.Node) -> Any:
    return yaml.safe_load(yaml.serialize(node))


def _read_comment(lines: list[str], key_line: int) -> tuple[str, Schema]:
    first = key_line
    while first and lines[first - 1].lstrip().startswith("#"):
        first -= 1
    comment = [line.strip().removeprefix("#").strip() for line in lines[first:key_line]]
    words: list[str] = []
    annotation: Schema = {}
    for line in comment:
        if line.startswith("@schema "):
            annotation = yaml.safe_load(line.removeprefix("@schema "))
        elif line.startswith("-- "):
            words = [line.removeprefix("-- ")]
        elif words:
            words.append(line)
    return " ".join(words), annotation


def _check_described(value: Value, line: int) -> None:
    name = ".".join(value.path)
    if value.children:
        return
    if not value.description:
        raise UndescribedValue(f"line {line}: {name} has no comment that starts with '# --'")
    open_map = value.default == {} and "additionalProperties" not in value.annotation
    open_list = isinstance(value.default, list) and "items" not in value.annotation
    if (open_map or open_list) and "$ref" not in value.annotation:
        raise UndescribedValue(f"line {line}: {name}: '@schema' must say what it may hold")
    if value.default is None and not TYPE_WORDS & value.annotation.keys():
        raise UndescribedValue(f"line {line}: {name}: '@schema' must say its type")


# ---------------------------------------------------------------------------------- schema


def build_schema(values: Sequence[Value]) -> Schema:
    """Return the closed schema of the whole chart."""
    body = _schema_of_map(values)
    # A chart that depends on this one may disable it by this name; nothing here reads it.
    body["properties"]["enabled"] = {"type": "boolean"}
    return {"$schema": DRAFT, **body, "definitions": build_definitions()}


def _schema_of_map(values: Sequence[Value]) -> Schema:
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {value.path[-1]: _schema_of(value) for value in values},
    }


def _schema_of(value: Value) -> Schema:
    if value.children:
        return {**_schema_of_map(value.children), **value.annotation}
    described: Schema = {"description": value.description}
    if "$ref" in value.annotation:
        return {**described, "allOf": [value.annotation]}
    if TYPE_WORDS & value.annotation.keys():
        return {**described, **value.annotation}
    return {**described, "type": TYPES[type(value.default)], **value.annotation}


def _closed(properties: Schema, *required: str) -> Schema:
    body: Schema = {"type": "object", "additionalProperties": False, "properties": properties}
    return {**body, "required": list(required)} if required else body


def _alert_names() -> list[str]:
    rules = yaml.safe_load((CHART / "files" / "rules" / "koord-queue.yaml").read_bytes())
    return [rule["alert"] for group in rules["groups"] for rule in group["rules"]]


TEXT: Final[Schema] = {"type": "string"}
PROMETHEUS_DURATION: Final[Schema] = {"type": "string", "pattern": "^([0-9]+(ms|s|m|h|d|w))+$"}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
OPEN: Final[Schema] = {"type": "object"}
QUANTITIES: Final[Schema] = {
    "type": "object",
    "additionalProperties": {
        "anyOf": [{"type": "number"}, {"type": "string", "pattern": QUANTITY["pattern"]}]
    },
}

# With --set, helm passes a number with a decimal point as a string.
NUMBERS: Final[Schema] = {
    "rate": {
        "anyOf": [
            {"type": "number", "minimum": 0},
            {"type": "string", "pattern": "^([0-9]+([.][0-9]*)?|[.][0-9]+)$"},
        ]
    },
    "factor": {
        "anyOf": [
            {"type": "number", "exclusiveMinimum": 0},
            {
                "type": "string",
                "pattern": "^(0*[1-9][0-9]*([.][0-9]*)?|0*[.]0*[1-9][0-9]*)$",
            },
        ]
    },
}

# What Kubernetes accepts, as far as typos are likely.
KUBERNETES_TYPES: Final[Schema] = {
    "open": OPEN,
    "textMap": {"type": "object", "additionalProperties": TEXT},
    "nameReference": _closed({"name": TEXT}, "name"),
    "resources": _closed(
        {"limits": QUANTITIES, "requests": QUANTITIES, "claims": {"type": "array", "items": OPEN}}
    ),
    "toleration": _closed(
        {
            "key": TEXT,
            "operator": {"enum": ["Exists", "Equal", "Lt", "Gt"]},
            "value": TEXT,
            "effect": {"enum": ["NoSchedule", "PreferNoSchedule", "NoExecute"]},
            "tolerationSeconds": {"type": "integer"},
        }
    ),
    "affinity": _closed({"nodeAffinity": OPEN, "podAffinity": OPEN, "podAntiAffinity": OPEN}),
    "topologySpreadConstraint": _closed(
        {
            "maxSkew": COUNT,
            "topologyKey": TEXT,
            "whenUnsatisfiable": {"enum": ["DoNotSchedule", "ScheduleAnyway"]},
            "labelSelector": OPEN,
            "minDomains": COUNT,
            "nodeAffinityPolicy": {"enum": ["Honor", "Ignore"]},
            "nodeTaintsPolicy": {"enum": ["Honor", "Ignore"]},
            "matchLabelKeys": {"type": "array", "items": TEXT},
        },
        *("maxSkew", "topologyKey", "whenUnsatisfiable"),
    ),
    "environmentVariable": _closed({"name": TEXT, "value": TEXT, "valueFrom": OPEN}, "name"),
    "countOrPercent": {"anyOf": [COUNT, {"type": "string", "pattern": "^[0-9]+%$"}]},
    "duration": {"type": "string", "pattern": "^([0-9]+(ms|s|m|h))*$"},
    "alerts": {
        "type": "object",
        "propertyNames": {"enum": _alert_names()},
        "additionalProperties": _closed(
            {
                "enabled": {"type": "boolean"},
                "severity": TEXT,
                "for": PROMETHEUS_DURATION,
                "threshold": {"type": "number"},
                "window": PROMETHEUS_DURATION,
            }
        ),
    },
}


def build_definitions() -> Schema:
    """Return the definitions for "@schema"; those of configuration files are from the programs."""
    _, types = msgspec.json.schema_components(
        [
            KoordQueueConfiguration,
            ElasticQuotaArguments,
            ElasticQuotaTreeArguments,
            ResourceQuotaArguments,
            GeneralOptions,
            ExtensionOptions,
        ],
        ref_template=REFERENCE,
    )
    definitions = {
        **KUBERNETES_TYPES,
        **NUMBERS,
        **{name: _bare(body) for name, body in types.items()},
    }
    plugins = definitions["KoordQueueConfiguration"]["properties"]["pluginConfigs"]
    # Each plugin checks its own arguments; those of built-in plugins are known here too.
    plugins["properties"] = {
        "ElasticQuota": {"$ref": REFERENCE.format(name=ElasticQuotaTreeArguments.__name__)},
        "ElasticQuotaV2": {"$ref": REFERENCE.format(name=ElasticQuotaArguments.__name__)},
        "ResourceQuota": {"$ref": REFERENCE.format(name=ResourceQuotaArguments.__name__)},
        **{name: {"type": "object", "maxProperties": 0} for name in ("Priority", "defaultgroup")},
    }
    # Options for all jobs are next to the extensions, to whose keys an installation may add.
    definitions["ControllersConfiguration"] = {
        **definitions.pop(GeneralOptions.__name__),
        "additionalProperties": {"$ref": REFERENCE.format(name=ExtensionOptions.__name__)},
    }
    return dict(sorted(definitions.items()))


def _bare(schema: Any) -> Any:
    """Return a schema without what only the Python decoder needs."""
    if isinstance(schema, list):
        return [_bare(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: one for key, one in schema.items() if key != "default" and one != []}
    described = {"title", "description"} if "properties" in kept or "enum" in kept else set()
    return {key: _bare(one) for key, one in kept.items() if key not in described}


# ----------------------------------------------------------------------------------- table


def build_table(values: Sequence[Value]) -> str:
    """Return the table of all values as Markdown."""
    rows = ["| value | default | what it is |", "| --- | --- | --- |"]
    for value in _leaves(values):
        default = json.dumps(value.default, separators=(",", ":")).replace("|", "\\|")
        description = value.description.replace("|", "\\|")
        rows.append(f"| `{'.'.join(value.path)}` | `{default}` | {description} |")
    return "\n".join(rows) + "\n"


def _leaves(values: Sequence[Value]) -> Iterator[Value]:
    for value in values:
        if value.children:
            yield from _leaves(value.children)
        else:
            yield value


# ---------------------------------------------------------------------------------- command


def build_files(chart: Path = CHART) -> dict[Path, str]:
    """Return the text of each generated file, by path."""
    values = read_values((chart / "values.yaml").read_text(encoding="utf-8"))
    readme = chart / "README.md"
    text = readme.read_text(encoding="utf-8")
    before, _, rest = text.partition(TABLE_BEGIN)
    _, _, after = rest.partition(TABLE_END)
    table = f"{TABLE_BEGIN}\n{build_table(values)}\n{TABLE_END}"
    schema = json.dumps(build_schema(values), indent=2) + "\n"
    return {chart / "values.schema.json": schema, readme: before + table + after}


def stale_files(chart: Path = CHART) -> list[Path]:
    """Return the files that are missing or do not match values.yaml."""
    return [
        path
        for path, text in build_files(chart).items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 1 if a file is stale or a value is not described."""
    parser = argparse.ArgumentParser(prog="python -m tests.charts.values_reference")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", action="store_true", help="write the files")
    what.add_argument("--check", action="store_true", help="fail when a file is stale")
    options = parser.parse_args(arguments)
    try:
        if options.write:
            for path, text in build_files().items():
                path.write_text(text, encoding="utf-8")
            return 0
        stale = stale_files()
    except UndescribedValue as error:
        print(f"values.yaml: {error}", file=sys.stderr)
        return 1
    for path in stale:
        print(f"{path.name} is stale: run `make schema`", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
