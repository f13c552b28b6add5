"""The CustomResourceDefinitions of Queue, QueueUnit, QuotaPolicy and QueueReservation.

    python -m shared_api.crds --write crds     writes crds/queues.yaml and the others
    python -m shared_api.crds --check crds     fails when one of them is stale

What is here is what a type cannot say: names, columns, selectable fields. The schemas come from
the types (`shared_api.crd_schema`).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from shared_api.crd_schema import Schema, schema_of
from shared_api.objects.queue import Queue
from shared_api.objects.queue_reservation import QueueReservation
from shared_api.objects.queue_unit import CONSUMER_STAYS, QueueUnit
from shared_api.objects.quota_policy import QuotaPolicy
from shared_api.queue_unit_phases import Phase

GROUP: Final = "scheduling.x-k8s.io"
VERSION: Final = "v1alpha1"

_HEADER: Final = """\
# Generated from shared_api/objects/{source}.py by `make crds`
# (python -m shared_api.crds --write crds). Do not edit.
"""
_LINE_LENGTH: Final = 100


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of `kubectl get`; those of priority 1 are shown with `-o wide` only."""

    name: str
    json_path: str
    type: str = "string"
    priority: int = 0

    def body(self) -> dict[str, Any]:
        """Return its part of the CRD."""
        body: dict[str, Any] = {"name": self.name, "jsonPath": self.json_path, "type": self.type}
        return {**body, "priority": self.priority} if self.priority else body


@dataclass(frozen=True, kw_only=True)
class Definition:
    """One kind, as users see it."""

    object_type: type[msgspec.Struct]
    source: str
    kind: str
    singular: str
    plural: str
    """The name in paths; also of the file."""
    short_names: tuple[str, ...] = ()
    columns: tuple[Column, ...]
    selectable: tuple[str, ...] = ()
    rules: tuple[Mapping[str, str], ...] = ()
    phases: tuple[str, ...] = ()
    """The known values of `status.phase`, where the kind has one."""
    is_optional: bool = False
    """Whether the programs work without the kind."""

    def schema(self) -> Schema:
        """Return the whole object's schema."""
        schema = schema_of(self.object_type)
        schema["properties"]["apiVersion"] = {"type": "string"}
        schema["properties"]["kind"] = {"type": "string"}
        if self.rules:
            schema["x-kubernetes-validations"] = [dict(rule) for rule in self.rules]
        if self.phases:
            phase = schema["properties"]["status"]["properties"]["phase"]
            phase.pop("maxLength")
            phase["enum"] = list(self.phases)
        return schema

    def body(self) -> dict[str, Any]:
        """Return the CustomResourceDefinition."""
        names: dict[str, Any] = {
            "kind": self.kind,
            "listKind": self.kind + "List",
            "plural": self.plural,
            "singular": self.singular,
            "categories": ["koord-queue"],
        }
        if self.short_names:
            names["shortNames"] = list(self.short_names)
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{self.plural}.{GROUP}"},
            "spec": {
                "group": GROUP,
                "names": names,
                "scope": "Namespaced",
                "versions": [self._version()],
            },
        }

    def text(self) -> str:
        """Return the file: the same bytes for the same types, whatever the machine."""
        body = yaml.dump(
            self.body(), Dumper=_PlainDumper, sort_keys=True, width=_LINE_LENGTH, allow_unicode=True
        )
        return _HEADER.format(source=self.source) + "---\n" + body

    def _version(self) -> dict[str, Any]:
        version: dict[str, Any] = {
            "name": VERSION,
            "served": True,
            "storage": True,
            "subresources": {"status": {}},
            "additionalPrinterColumns": [column.body() for column in self.columns],
            "schema": {"openAPIV3Schema": self.schema()},
        }
        if self.selectable:
            version["selectableFields"] = [{"jsonPath": path} for path in self.selectable]
        return version


_READY: Final = '.status.conditions[?(@.type=="Ready")]'
_AGE: Final = Column(name="AGE", json_path=".metadata.creationTimestamp", type="date")

QUEUE: Final = Definition(
    object_type=Queue,
    source="queue",
    kind="Queue",
    singular="queue",
    plural="queues",
    short_names=("kq",),  # "q" is Volcano's queue
    columns=(
        Column(name="POLICY", json_path=".spec.queuePolicy"),
        Column(name="PENDING", json_path=".status.pending", type="integer"),
        Column(name="ADMITTED", json_path=".status.admitted", type="integer"),
        Column(name="READY", json_path=f"{_READY}.status"),
        Column(name="MESSAGE", json_path=f"{_READY}.message", priority=1),
        _AGE,
    ),
)
QUEUE_UNIT: Final = Definition(
    object_type=QueueUnit,
    source="queue_unit",
    kind="QueueUnit",
    singular="queueunit",
    plural="queueunits",
    short_names=("qu", "qus"),
    columns=(
        Column(name="QUEUE", json_path=".spec.queue"),
        Column(name="PRIORITY", json_path=".spec.priority", type="integer"),
        Column(name="PHASE", json_path=".status.phase"),
        Column(name="JOBTYPE", json_path=".spec.consumerRef.kind"),
        Column(name="MESSAGE", json_path=".status.message", priority=1),
        _AGE,
    ),
    selectable=(".spec.queue", ".status.phase"),
    rules=(CONSUMER_STAYS,),
    # "" and Preempted are words of upstream's older versions, which an object may still carry.
    phases=("", *(phase.value for phase in Phase), "Preempted"),
)
QUOTA_POLICY: Final = Definition(
    object_type=QuotaPolicy,
    source="quota_policy",
    kind="QuotaPolicy",
    singular="quotapolicy",
    plural="quotapolicies",
    short_names=("qpol",),
    columns=(
        Column(name="QUOTAS", json_path=".spec.quotas"),
        Column(name="READY", json_path=f"{_READY}.status"),
        Column(name="REASON", json_path=f"{_READY}.reason"),
        Column(name="MESSAGE", json_path=f"{_READY}.message", priority=1),
        _AGE,
    ),
    is_optional=True,
)
QUEUE_RESERVATION: Final = Definition(
    object_type=QueueReservation,
    source="queue_reservation",
    kind="QueueReservation",
    singular="queuereservation",
    plural="queuereservations",
    short_names=("qres",),
    columns=(
        Column(name="NEXT", json_path=".status.windows[0].start"),
        Column(name="UNTIL", json_path=".status.windows[0].end"),
        Column(name="RRULE", json_path=".spec.rrule"),
        Column(name="READY", json_path=f"{_READY}.status"),
        Column(name="REASON", json_path=f"{_READY}.reason"),
        Column(name="MESSAGE", json_path=f"{_READY}.message", priority=1),
        _AGE,
    ),
    is_optional=True,
)
DEFINITIONS: Final = (QUEUE, QUEUE_UNIT, QUOTA_POLICY, QUEUE_RESERVATION)


class _PlainDumper(yaml.SafeDumper):
    """Writes a value that stands in two places twice: YAML anchors surprise readers."""

    def ignore_aliases(self, data: object) -> bool:
        """Return True: nothing is written as a reference."""
        return True


def write(folder: Path) -> None:
    """Write every definition's file."""
    folder.mkdir(parents=True, exist_ok=True)
    for definition in DEFINITIONS:
        _file_of(folder, definition).write_text(definition.text(), encoding="utf-8")


def stale_files(folder: Path) -> list[Path]:
    """Return the files that are missing or differ from what the types say."""
    files = [(_file_of(folder, definition), definition.text()) for definition in DEFINITIONS]
    return [
        path
        for path, text in files
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]


def _file_of(folder: Path, definition: Definition) -> Path:
    return folder / f"{definition.plural}.yaml"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit status is 1 when `--check` finds a stale file."""
    parser = argparse.ArgumentParser(prog="python -m shared_api.crds", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", type=Path, metavar="FOLDER", help="write the files")
    what.add_argument("--check", type=Path, metavar="FOLDER", help="fail when a file is stale")
    options = parser.parse_args(arguments)
    if options.write is not None:
        write(options.write)
        return 0
    stale = stale_files(options.check)
    for path in stale:
        sys.stderr.write(f"{path} is stale: run `make crds`\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
