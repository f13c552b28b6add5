"""Manifests are read as the API server reads them, and hostile ones are refused in time."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shared_api.manifest_documents import (
    MAX_DEPTH,
    MAX_DOCUMENTS,
    ManifestError,
    read_documents,
)

Json = dict[str, Any]


A, B = {"kind": "A"}, {"kind": "B"}


def read(text: str | bytes, *, is_json: bool = False) -> list[Json]:
    return read_documents(text.encode() if isinstance(text, str) else text, is_json=is_json)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("kind: A\n---\n\n---\nkind: B\n", [A, B], id="several"),
        pytest.param("kind: List\nitems: [{kind: A}, {kind: B}]", [A, B], id="a list"),
        pytest.param("a: &x {b: 1}\nc: *x", [{"a": {"b": 1}, "c": {"b": 1}}], id="an alias"),
        pytest.param(
            "a: &x {b: 1}\nd: {<<: *x, e: 2}",
            [{"a": {"b": 1}, "d": {"b": 1, "e": 2}}],
            id="merged keys",
        ),
        pytest.param(
            "a: 2026-11-26 10:00:00\nb: 12:30\nc: '1'\nd: 1:2.5",
            [{"a": "2026-11-26 10:00:00", "b": "12:30", "c": "1", "d": "1:2.5"}],
            id="no dates, and no numbers in base 60",
        ),
        pytest.param("1: a\ntrue: b\n~: c", [{"1": "a", "true": "b", "~": "c"}], id="keys"),
        pytest.param("a: yes\nb: 0x10\nc: 1.5", [{"a": True, "b": 16, "c": 1.5}], id="values"),
    ],
)
def test_what_is_read_of_yaml(text: str, want: list[Json]) -> None:
    assert read(text) == want


def test_json_is_read_as_it_is() -> None:
    assert read('{"kind": "List", "items": [{"kind": "A"}]}', is_json=True) == [{"kind": "A"}]


LAUGHS = "\n".join(
    ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
)
LONG = f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 1000)}]"
MERGES = "a0: &a0 {x: 1}\n" + "\n".join(
    f"a{n}: &a{n} {{k{n}: 1, <<: [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, 30)
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param(LAUGHS, "it is too large", id="a billion laughs"),
        pytest.param(LONG, "it is too large", id="a long text, often"),
        pytest.param(MERGES, "it is too large", id="merged keys"),
        pytest.param("---\n" * 50_000, "it is too large", id="very many documents"),
        pytest.param(f"a: [{'[],' * 50_000}1]", "it is too large", id="very many values"),
        pytest.param("a: &a [*a]", "names nothing that stands before it", id="a cycle"),
        pytest.param("a: *b", "names nothing that stands before it", id="an unknown alias"),
        pytest.param("a: &x 1\n---\nb: *x", "names nothing", id="an alias of another document"),
        pytest.param("[" * 500_000, f"more than {MAX_DEPTH} levels", id="very deep"),
        pytest.param("a: " + "{b: " * 70 + "1" + "}" * 70, "levels deep", id="too deep"),
        pytest.param("a: !!python/object:os.system {}", "not YAML", id="a type of Python"),
        pytest.param("a: !x 1", "not YAML", id="a tag"),
        pytest.param("a: 1\na: 2", "`a` is there already, on line 1", id="a repeated key"),
        pytest.param("? [a]\n: b", "it is not YAML", id="a key that is a list"),
        pytest.param(f"a: {'9' * 5000}", "it cannot be read", id="a huge number"),
        pytest.param(b"\xff\xfe\xff", "it cannot be read", id="not UTF-8"),
        pytest.param("a: \x07", "it is not YAML", id="a control character"),
        pytest.param("a: [1", "it is not YAML", id="unfinished"),
        pytest.param("- a", "document 1 is no object", id="a list"),
        pytest.param("", "it has no object", id="nothing"),
        pytest.param(
            "kind: List\nitems: [{kind: List, items: []}]", "a list in a list", id="lists"
        ),
        pytest.param("kind: A\n---\n" * (MAX_DOCUMENTS + 1), f"at most {MAX_DOCUMENTS}", id="many"),
    ],
)
def test_what_is_refused(text: str | bytes, says: str) -> None:
    with pytest.raises(ManifestError) as caught:
        read(text)
    assert says in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[" * 500_000, id="very deep"),
        pytest.param('{"a":' * 80 + "1" + "}" * 80, id="too deep"),
        pytest.param("{", id="unfinished"),
        pytest.param("7", id="no object"),
        pytest.param(json.dumps({"kind": "List", "items": [{}] * 51}), id="many"),
    ],
)
def test_what_is_refused_of_json(text: str) -> None:
    with pytest.raises(ManifestError):
        read(text, is_json=True)
