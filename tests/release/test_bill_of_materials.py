"""The SBOM has all that is locked, follows its schema, and is the same each time."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from tests.release.bill_of_materials import document, of_checkout
from tests.release.licenses import LOCK, TABLE, read
from tests.tidy.dependency_locks import locked

DOCUMENT = of_checkout()
PACKAGES: dict[str, Any] = {
    each["name"]: each for each in DOCUMENT["components"] if each["purl"].startswith("pkg:pypi/")
}


def test_every_locked_package_is_in_it() -> None:
    got = {
        name: (each["version"], len(each["externalReferences"])) for name, each in PACKAGES.items()
    }
    assert got == locked(LOCK.read_text(encoding="utf-8"))


def test_every_component_has_a_license() -> None:
    table = TABLE.read_text(encoding="utf-8")
    want = {row.name: row.license for row in read(table, "package")}
    got = {
        name: licensed.get("expression") or licensed["license"]["id"]
        for name, each in PACKAGES.items()
        for licensed in each["licenses"]
    }
    assert got == want
    assert [each for each in DOCUMENT["components"] if not each["licenses"]] == []


def test_the_hashes_are_those_that_pip_verifies() -> None:
    lock = LOCK.read_text(encoding="utf-8")
    contents = [
        found["content"]
        for each in PACKAGES.values()
        for reference in each["externalReferences"]
        for found in reference["hashes"]
    ]
    assert sorted(contents) == sorted(
        line.partition("sha256:")[2].split()[0] for line in lock.splitlines() if "--hash" in line
    )


def test_libraries_of_the_pages_are_in_it() -> None:
    purls = {each["purl"] for each in DOCUMENT["components"]} - {
        each["purl"] for each in PACKAGES.values()
    }
    assert len(purls) == len(read(TABLE.read_text(encoding="utf-8"), "library"))
    assert any(purl.startswith("pkg:npm/%40preact/signals-core@") for purl in purls)


def test_it_follows_the_schema() -> None:
    validator = JsonStrictValidator(SchemaVersion.V1_6)
    assert validator.validate_str(json.dumps(DOCUMENT)) is None
    flawed = {**DOCUMENT, "serialNumber": "1"}
    assert validator.validate_str(json.dumps(flawed)) is not None


def test_the_same_input_gives_the_same_text() -> None:
    text = json.dumps(of_checkout())
    assert text == json.dumps(DOCUMENT)
    assert "timestamp" not in text


TABLES = """\
| package | version | license |
|---|---|---|
| a | 1 | MIT |

| library | version | license |
|---|---|---|
| b | 2 | MIT |
"""


def test_another_lock_has_another_serial_number() -> None:
    one, two = (
        document(
            f"a==1 \\\n    --hash=sha256:{digit * 64}\n", TABLES, of_version="0.1.0", direct=["a"]
        )["serialNumber"]
        for digit in "12"
    )
    assert one != two


def test_a_package_without_a_row_is_an_error() -> None:
    lock = f"a==1 \\\n    --hash=sha256:{'0' * 64}\nc==1 \\\n    --hash=sha256:{'0' * 64}\n"
    with pytest.raises(ValueError, match=r"differ in \['c'\]"):
        document(lock, TABLES, of_version="0.1.0", direct=[])
