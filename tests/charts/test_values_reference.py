"""values.schema.json and the README's table are complete and generated from values.yaml."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.charts.values_reference import (
    CHART,
    UndescribedValue,
    build_schema,
    build_table,
    main,
    read_values,
    stale_files,
)


def test_the_files_are_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"]) == 0, capsys.readouterr().err


def test_a_stale_file_is_found(tmp_path: Path) -> None:
    chart = shutil.copytree(CHART, tmp_path / "chart")
    assert stale_files(chart) == []
    values = chart / "values.yaml"
    values.write_text(values.read_text().replace("# -- Pods of", "# -- Replicas of"))
    assert [path.name for path in stale_files(chart)] == ["values.schema.json", "README.md"]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("# -- A.\na: 1", {"type": "integer"}),
        ("# -- A.\na: 1.5", {"type": "number"}),
        ("# -- A.\na: true", {"type": "boolean"}),
        ('# -- A.\na: ""', {"type": "string"}),
        ("# -- A.\n# @schema {minimum: 1}\na: 1", {"type": "integer", "minimum": 1}),
        ("# -- A.\n# @schema {enum: [x, y]}\na: x", {"enum": ["x", "y"]}),
        ("# -- A.\n# @schema {type: [string, integer]}\na: x", {"type": ["string", "integer"]}),
        ("# -- A.\n# @schema {items: {type: string}}\na: []",
         {"type": "array", "items": {"type": "string"}}),
        # In this draft, keys next to a $ref are ignored.
        ('# -- A.\n# @schema {$ref: "#/definitions/x"}\na: {}',
         {"allOf": [{"$ref": "#/definitions/x"}]}),
    ],
)  # fmt: skip
def test_a_value_is_described_by_its_default_and_its_comment(text: str, want: Any) -> None:
    got = build_schema(read_values(text))["properties"]["a"]
    assert got == {"description": "A.", **want}


def test_a_map_is_closed_by_default() -> None:
    text = "a:\n  # -- B.\n  b: 1\n# @schema {additionalProperties: true}\nc:\n  # -- D.\n  d: 1\n"
    schema = build_schema(read_values(text))
    assert schema["additionalProperties"] is False
    assert schema["properties"]["a"]["additionalProperties"] is False
    assert schema["properties"]["c"]["additionalProperties"] is True


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1", "line 1: a has no comment"),
        ("# about a\na: 1", "line 2: a has no comment"),
        ("# -- Of another value.\n\na: 1", "line 3: a has no comment"),
        ("a:\n  b: 1", "line 2: a.b has no comment"),
        ("# -- A.\na: {}", "line 2: a: '@schema' must say what it may hold"),
        ("# -- A.\na: []", "line 2: a: '@schema' must say what it may hold"),
        ("# -- A.\na: null", "line 2: a: '@schema' must say its type"),
    ],
)
def test_a_value_without_a_description_is_an_error(text: str, said: str) -> None:
    with pytest.raises(UndescribedValue) as refused:
        read_values(text)
    assert str(refused.value).startswith(said)


def test_the_table_has_a_row_for_every_value_in_order() -> None:
    text = "# -- One | of\n# two lines.\n# @schema {minimum: 0}\na: 1\nb:\n  # -- C.\n  c: [x]\n"
    text = text.replace("  # -- C.\n", "  # -- C.\n  # @schema {items: {type: string}}\n")
    assert build_table(read_values(text)).splitlines()[2:] == [
        "| `a` | `1` | One \\| of two lines. |",
        '| `b.c` | `["x"]` | C. |',
    ]
