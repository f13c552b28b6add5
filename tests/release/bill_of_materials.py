"""The SBOM: ``python -m tests.release.bill_of_materials --output FILE`` (CycloneDX, JSON).

It is made of two checked-in files, the lock and the table of licenses, so that the same commit
gives the same bytes on every machine: there is no time in it, and its serial number is a digest of
it.
A tool that looks at an environment finds what one Python on one machine has installed; the lock has
what every installation may have, with the hashes that pip verifies.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import uuid
from pathlib import Path
from typing import Any, Final

from tests.release.licenses import LOCK, TABLE, Bundled, read
from tests.release.versions import version
from tests.tidy.dependency_locks import canonical, wanted
from tests.tidy.source_tree import ROOT

SPEC: Final = "1.6"
Json = dict[str, Any]


def document(lock: str, table: str, *, of_version: str, direct: list[str]) -> Json:
    """Return the SBOM.

    Args:
        lock: The text of requirements.txt.
        table: The text of THIRD_PARTY.md.
        of_version: The version of this project.
        direct: The names of packages that the project itself asks for.

    Raises:
        ValueError: The table is not of this lock.
    """
    hashes, licenses = hashes_of(lock), {each.name: each for each in read(table, "package")}
    if stale := hashes.keys() ^ licenses.keys():
        raise ValueError(f"lock and table differ in {sorted(stale)}; run make licenses")
    root = _component(Bundled("koord-queue", of_version, "Apache-2.0"), "pypi", [])
    packages = [_component(licenses[name], "pypi", found) for name, found in hashes.items()]
    libraries = [_component(each, "npm", []) for each in read(table, "library")]
    by_name = {each["name"]: each["bom-ref"] for each in packages}
    content: Json = {
        "metadata": {
            "lifecycles": [{"phase": "build"}],
            "component": root | {"type": "application"},
        },
        "components": [*packages, *libraries],
        # What the packages need of each other is not in the lock, so they have no rows.
        "dependencies": [
            {"ref": root["bom-ref"], "dependsOn": sorted(by_name[name] for name in direct)}
        ],
    }
    serial = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(content, sort_keys=True))
    return {
        "$schema": f"http://cyclonedx.org/schema/bom-{SPEC}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": SPEC,
        "serialNumber": serial.urn,
        "version": 1,
        **content,
    }


def _component(bundled: Bundled, registry: str, hashes: list[str]) -> Json:
    group, _, name = bundled.name.rpartition("/")
    path = f"{group.replace('@', '%40')}/{name}" if group else name
    purl = f"pkg:{registry}/{path.lower() if registry == 'pypi' else path}@{bundled.version}"
    simple = " " not in bundled.license
    license_ = {"license": {"id": bundled.license}} if simple else {"expression": bundled.license}
    component: Json = {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": bundled.version,
        "purl": purl,
        "licenses": [license_],
    }
    if group:
        component["group"] = group
    if hashes:
        # The files of one version: an installation takes the one that fits its platform.
        component["externalReferences"] = [
            {"type": "distribution", "url": purl, "hashes": [{"alg": "SHA-256", "content": each}]}
            for each in hashes
        ]
    return component


def hashes_of(lock: str) -> dict[str, list[str]]:
    """Return the SHA-256 digests of each package's files, as the lock has them."""
    return {
        block.partition("==")[0].partition("[")[0]: re.findall(r"--hash=sha256:(\w+)", block)
        for block in re.split(r"^(?=[a-z0-9])", lock, flags=re.MULTILINE)[1:]
    }


def of_checkout() -> Json:
    """Return the SBOM of this checkout."""
    return document(
        LOCK.read_text(encoding="utf-8"),
        TABLE.read_text(encoding="utf-8"),
        of_version=version(ROOT),
        direct=[canonical(row) for row in wanted(LOCK.name)],
    )


def main() -> int:
    """Write the SBOM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    text = json.dumps(of_checkout(), indent=2) + "\n"
    parser.parse_args().output.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
