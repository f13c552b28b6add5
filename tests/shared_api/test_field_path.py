"""Paths to fields of objects."""

from __future__ import annotations

from typing import Any

import pytest

from shared_api.field_path import FieldPathError, parse_path

BODY: dict[str, Any] = {
    "spec": {"replicas": 3, "2nd": 4, "groups": [{"name": "a"}, {"name": "b", "size": 2}]},
    "metadata": {"annotations": {"example.com/size": "7"}},
    "status": {
        "conditions": [{"type": "Failed", "status": "False"}, {"type": "Done", "status": "True"}]
    },
}


@pytest.mark.parametrize(
    ("path", "want"),
    [
        pytest.param(".spec.replicas", 3, id="a field"),
        pytest.param("spec.replicas", 3, id="without the first dot"),
        pytest.param("{.spec.replicas}", 3, id="in the form of kubectl"),
        pytest.param("$.spec.replicas", 3, id="from the root"),
        pytest.param(".spec.groups[1].size", 2, id="by position"),
        pytest.param(".spec.2nd", 4, id="a name that begins with a digit"),
        pytest.param(".spec.groups[2].size", None, id="beyond the end"),
        pytest.param(".metadata.annotations['example.com/size']", "7", id="a quoted name"),
        pytest.param('.status.conditions[?(@.type=="Done")].status', "True", id="by a field"),
        pytest.param(".status.conditions[?(@.type=='Gone')].status", None, id="no such item"),
        pytest.param(".spec.nothing.there", None, id="not there"),
        pytest.param(".spec.replicas.deeper", None, id="through a number"),
        pytest.param(".spec[0]", None, id="a map is not a list"),
    ],
)
def test_the_value_at_a_path(path: str, want: object) -> None:
    assert parse_path(path).read(BODY) == want


@pytest.mark.parametrize(
    ("path", "says"),
    [
        pytest.param("", "it names none", id="empty"),
        pytest.param(".", "'.' cannot be read", id="a dot"),
        pytest.param(".spec..replicas", "'..replicas' cannot be read", id="two dots"),
        pytest.param(".spec.groups[*].size", "'[*].size' cannot be read", id="a wildcard"),
        pytest.param(".spec.groups[", "'[' cannot be read", id="an open bracket"),
        pytest.param(".spec.a b", "' b' cannot be read", id="a blank"),
    ],
)
def test_the_error_for_an_invalid_path_has_the_rest(path: str, says: str) -> None:
    with pytest.raises(FieldPathError) as raised:
        parse_path(path)
    assert says in str(raised.value)


def test_a_patch_sets_the_field() -> None:
    path = parse_path(".spec.runPolicy['suspend']")
    assert path.patch(value=True) == {"spec": {"runPolicy": {"suspend": True}}}


def test_a_field_in_a_list_cannot_be_set() -> None:
    with pytest.raises(FieldPathError, match="in a list"):
        parse_path(".spec.groups[0].suspend").patch(value=True)
