"""A sample manifest per kind of job, as a user would write it, and the CRDs of the kinds."""

from __future__ import annotations

import copy
import gzip
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import yaml

from queue_controllers.decision.queue_unit_builder import demand_of
from queue_controllers.jobframework.generic_job import GenericJob
from shared_api.fake_api_server.schema_validation import compile_schema
from shared_api.resource_list import format_amounts

DATA = Path(__file__).parent / "data"

SERVICE_ACCOUNTS = ("spark",)
"""The service accounts in samples; a job without its service account is held."""

WIDGET_DECLARATION = """
kinds:
  - apiVersion: example.com/v1
    kind: Widget
    plural: widgets
    suspend: .spec.suspend
    podSets:
      - {name: worker, count: .spec.workers, template: .spec.template}
    running: {path: .status.phase, values: [Running]}
    suspended: {path: .status.phase, values: [Suspended]}
    succeeded: {path: .status.phase, values: [Done]}
    failed: {path: .status.phase, values: [Failed]}
    podLabel: example.com/widget
"""
"""An unknown kind, as a configuration file declares it."""


def declared_on_page(version: str, kind: str) -> dict[str, Any]:
    """Return the example declaration of a kind on the page about kinds of jobs."""
    page = (DATA.parents[1] / "docs" / "jobs.md").read_text("utf-8")
    blocks = (block.partition("```")[0] for block in page.split("```yaml\n")[1:])
    kinds = [
        each
        for block in blocks
        if block.startswith("kinds:")
        for each in yaml.safe_load(block)["kinds"]
    ]
    (found,) = (
        each
        for each in kinds
        if each["kind"] == kind and each["apiVersion"].endswith(f"/{version}")
    )
    declared: dict[str, Any] = found
    return declared


KUEUE_WORKLOADS: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "workloads.kueue.x-k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, for tests only"},
    },
    "spec": {
        "group": "kueue.x-k8s.io",
        "scope": "Namespaced",
        "names": {
            "kind": "Workload",
            "listKind": "WorkloadList",
            "plural": "workloads",
            "singular": "workload",
        },
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}
"""The CRD by which Kueue is detected."""


def sample(name: str) -> dict[str, Any]:
    """Return a sample of tests/data/jobs."""
    loaded: dict[str, Any] = yaml.safe_load((DATA / "jobs" / f"{name}.yaml").read_text("utf-8"))
    return loaded


def crd(name: str) -> dict[str, Any]:
    """Return a CRD of tests/data/crds by its file name; the largest are gzipped."""
    return copy.deepcopy(_crd(name))


@cache
def _crd(name: str) -> dict[str, Any]:
    """Read a CRD once, as some take seconds."""
    plain = DATA / "crds" / f"{name}.yaml"
    packed = plain.with_name(f"{plain.name}.gz")
    text = plain.read_bytes() if plain.exists() else gzip.decompress(packed.read_bytes())
    loaded: dict[str, Any] = yaml.load(text, Loader=yaml.CSafeLoader)
    return loaded


def troubles_of(body: dict[str, Any], name: str) -> list[str]:
    """Return what the API server would drop or refuse in an object, by the name of its CRD."""
    _, _, wanted = body["apiVersion"].rpartition("/")
    (version,) = (each for each in crd(name)["spec"]["versions"] if each["name"] == wanted)
    schema = compile_schema(version["schema"]["openAPIV3Schema"])
    unknown: list[str] = []
    causes: list[Any] = []
    schema.check(schema.normalise(body, None, "", unknown), None, "", causes)
    return unknown + [str(each) for each in causes]


def shown_sets(adapter: GenericJob[Any], body: dict[str, Any]) -> dict[str, tuple[int, Any]]:
    """Return the count and the requests of one pod, by pod set, of a job as received."""
    job = msgspec.json.decode(msgspec.json.encode(body), type=adapter.object_type)
    shown = {}
    for each in adapter.pod_sets(job):
        one = msgspec.structs.replace(each, count=1)
        shown[each.name] = (each.count, format_amounts(demand_of((one,))))
    return shown
