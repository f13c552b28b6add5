"""The files under crds/ agree with the types, have limits, and accept what upstream accepts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from shared_api.crds import DEFINITIONS, QUEUE, QUEUE_UNIT, Definition, main, stale_files, write
from shared_api.objects.queue_unit import QueueUnitStatus
from shared_api.waiting_reasons import NOT_WRITTEN

ROOT = Path(__file__).parents[2]
CRDS = ROOT / "crds"
# The limit of the annotation in which `kubectl apply` keeps the last applied object.
ANNOTATION_BYTES = 262_144
# Far below it, since the schema is walked at every write.
MOST_BYTES = 32_768

each_kind = pytest.mark.parametrize(
    "definition", DEFINITIONS, ids=[each.kind for each in DEFINITIONS]
)


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield all nodes of a schema with their paths: `spec.podSet[].name`, `spec.request{}`."""
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}" if path else name)
    if "items" in schema:
        yield from nodes(schema["items"], path + "[]")
    if "additionalProperties" in schema:
        yield from nodes(schema["additionalProperties"], path + "{}")


def own_nodes(definition: Definition) -> dict[str, dict[str, Any]]:
    all_nodes = dict(nodes(definition.schema()))
    return {path: all_nodes[path] for path in all_nodes if path not in {"apiVersion", "kind"}}


def test_the_files_are_up_to_date() -> None:
    assert stale_files(CRDS) == [], "run `make crds`"


def test_check_fails_and_names_a_stale_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--write", str(tmp_path)]) == 0
    assert main(["--check", str(tmp_path)]) == 0
    changed = tmp_path / "queues.yaml"
    changed.write_text(changed.read_text().replace("maximum", "maxmum"))
    (tmp_path / "queueunits.yaml").unlink()
    assert main(["--check", str(tmp_path)]) == 1
    assert capsys.readouterr().err.count("is stale: run `make crds`") == 2


def test_the_bytes_do_not_depend_on_the_hash_seed(tmp_path: Path) -> None:
    for seed in ("1", "2"):
        command = [sys.executable, "-m", "shared_api.crds", "--write", str(tmp_path / seed)]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run(command, check=True, cwd=ROOT, env=environment)
    for name in (f"{each.plural}.yaml" for each in DEFINITIONS):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()


@each_kind
def test_a_file_is_one_document_under_a_header_that_names_the_command(
    definition: Definition, tmp_path: Path
) -> None:
    write(tmp_path)
    written = (tmp_path / f"{definition.plural}.yaml").read_text()
    assert "python -m shared_api.crds --write crds" in written.splitlines()[1]
    assert yaml.safe_load(written) == definition.body()
    assert "&id" not in written


@each_kind
def test_it_is_far_smaller_than_the_limit_of_apply(definition: Definition) -> None:
    size = len(json.dumps(definition.body()))
    assert size < MOST_BYTES < ANNOTATION_BYTES


@each_kind
def test_everything_has_a_limit(definition: Definition) -> None:
    unbounded = [path for path, node in own_nodes(definition).items() if not _is_bounded(node)]
    assert unbounded == []


def _is_bounded(node: dict[str, Any]) -> bool:
    match node.get("type"):
        case "string":
            return bool({"maxLength", "enum"} & node.keys()) or node.get("format") == "date-time"
        case "array":
            return "maxItems" in node and "x-kubernetes-list-type" in node
        case "integer":
            return {"minimum", "maximum"} <= node.keys() or node["format"] == "int64"
        case "object":
            return "additionalProperties" not in node or "maxProperties" in node
        case "boolean":
            return True
        case _:
            return node["x-kubernetes-int-or-string"] and "maxLength" in node


@each_kind
def test_every_field_has_a_description(definition: Definition) -> None:
    given_by_kubernetes = {"metadata", "spec.podSet[].template"}
    silent = [
        path
        for path, node in own_nodes(definition).items()
        if "description" not in node and path not in given_by_kubernetes and path[-2:] != "{}"
    ]
    assert silent == []


# Upstream's fields: koord-queue, pkg/apis/scheduling/v1alpha1/type.go.
QUEUE_FIELDS = """
    spec.queuePolicy:string spec.priority:integer spec.priorityClassName:string
    spec.admissionChecks[].name:string spec.admissionChecks[].labelSelector.matchLabels{}:string
    spec.admissionChecks[].labelSelector.matchExpressions[].key:string
    spec.admissionChecks[].labelSelector.matchExpressions[].operator:string
    spec.admissionChecks[].labelSelector.matchExpressions[].values[]:string
    status.queueItemDetails{}[].name:string status.queueItemDetails{}[].namespace:string
    status.queueItemDetails{}[].priority:integer status.queueItemDetails{}[].position:integer
"""
QUEUE_UNIT_FIELDS = """
    spec.consumerRef.apiVersion:string spec.consumerRef.kind:string spec.consumerRef.uid:string
    spec.consumerRef.namespace:string spec.consumerRef.name:string
    spec.consumerRef.resourceVersion:string spec.consumerRef.fieldPath:string
    spec.priority:integer spec.queue:string spec.resource{}:None spec.request{}:None
    spec.podSet[].name:string spec.podSet[].count:integer spec.podSet[].minCount:integer
    spec.podSet[].template:object spec.priorityClassName:string spec.active:boolean
    spec.maximumExecutionTimeSeconds:integer
    status.phase:string status.attempts:integer status.message:string
    status.lastUpdateTime:string status.lastAllocateTime:string
    status.admissionChecks[].name:string status.admissionChecks[].state:string
    status.admissionChecks[].lastTransitionTime:string status.admissionChecks[].message:string
    status.admissionChecks[].podSetUpdates[].name:string
    status.admissionChecks[].podSetUpdates[].labels{}:string
    status.admissionChecks[].podSetUpdates[].annotations{}:string
    status.admissionChecks[].podSetUpdates[].nodeSelector{}:string
    status.admissionChecks[].podSetUpdates[].tolerations[].key:string
    status.admissionChecks[].podSetUpdates[].tolerations[].operator:string
    status.admissionChecks[].podSetUpdates[].tolerations[].value:string
    status.admissionChecks[].podSetUpdates[].tolerations[].effect:string
    status.admissionChecks[].podSetUpdates[].tolerations[].tolerationSeconds:integer
    status.podState.running:integer status.podState.pending:integer
    status.admissions[].name:string status.admissions[].replicas:integer
    status.admissions[].running:integer status.admissions[].resources{}:None
    status.admissions[].reclaimState.replicas:integer
    status.conditions[].type:string status.requeueState.count:integer
    status.requeueState.requeueAt:string status.reclaimablePods[].name:string
    status.reclaimablePods[].count:integer
    status.accumulatedPastExecutionTimeSeconds:integer
"""


@pytest.mark.parametrize(
    ("definition", "fields"),
    [(QUEUE, QUEUE_FIELDS), (QUEUE_UNIT, QUEUE_UNIT_FIELDS)],
    ids=["Queue", "QueueUnit"],
)
def test_every_field_of_upstream_exists(definition: Definition, fields: str) -> None:
    got = {f"{path}:{node.get('type')}" for path, node in own_nodes(definition).items()}
    assert set(fields.split()) - got == set()


@pytest.mark.parametrize(
    ("path", "most"),
    [
        ("spec.podSet", 32),
        ("status.conditions", 16),
        ("status.admissions", 32),
        ("status.admissionChecks", 8),
        ("status.reclaimablePods", 32),
        ("status.podOwners", 32),
    ],
)
def test_lists_have_the_chosen_limits(path: str, most: int) -> None:
    assert own_nodes(QUEUE_UNIT)[path]["maxItems"] == most


def test_fields_that_a_manifest_may_omit_are_not_required() -> None:
    required = {path: node["required"] for path, node in own_nodes(QUEUE_UNIT).items()
                if "required" in node}  # fmt: skip
    assert required == {
        "status.admissions[]": ["name", "replicas", "running"],
        "status.admissionChecks[]": ["name", "state"],
        "status.admissionChecks[].podSetUpdates[]": ["name"],
        "status.conditions[]": ["lastTransitionTime", "message", "reason", "status", "type"],
        "status.reclaimablePods[]": ["count", "name"],
    }


def test_the_defaults_of_server_and_structs_agree() -> None:
    schema = own_nodes(QUEUE_UNIT)
    assert schema["status"]["default"] == {"phase": "Enqueued", "message": NOT_WRITTEN}
    assert schema["status.phase"]["default"] == QueueUnitStatus().phase == "Enqueued"
    assert schema["spec.podSet[].name"]["default"] == "main"
    assert schema["spec.podSet[].count"]["default"] == 1
