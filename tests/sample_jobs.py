"""A sample manifest per kind of job, as a user would write it, and the CRDs of the kinds."""

from __future__ import annotations

import copy
import gzip
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

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


OPEN_OBJECT: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
"""The schema of an object with whatever fields."""


def open_crd(
    kind: str, plural: str, group: str, versions: Sequence[str] = ("v1",), *, status: bool = False
) -> dict[str, Any]:
    """Return the CRD of a namespaced kind that takes any object.

    Args:
        kind: The kind.
        plural: The name of its resource.
        group: Its API group.
        versions: Those served; the first one is stored.
        status: Whether the status is a subresource.
    """
    said: dict[str, Any] = {"served": True, "schema": {"openAPIV3Schema": OPEN_OBJECT}}
    if status:
        said["subresources"] = {"status": {}}
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    served = [{"name": each, "storage": each == versions[0], **said} for each in versions]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            # Asked for where a group ends in k8s.io.
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests only"},
        },
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": served},
    }


KUEUE_WORKLOADS: Final = open_crd("Workload", "workloads", "kueue.x-k8s.io", ("v1beta1",))
"""The CRD that says that Kueue is there."""

QUOTA_CRD: Final = open_crd(
    "ElasticQuota", "elasticquotas", "scheduling.sigs.k8s.io", ("v1alpha1",)
)
"""Of ElasticQuotas, for a server that is not to check them."""


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
    """Return what the API server would drop or refuse of an object, by the name of its CRD."""
    spec = crd(name)["spec"]
    wanted = body["apiVersion"].removeprefix(f"{spec['group']}/")
    (version,) = (each for each in spec["versions"] if each["name"] == wanted)
    schema = compile_schema(version["schema"]["openAPIV3Schema"])
    unknown: list[str] = []
    causes: list[Any] = []
    schema.check(schema.normalise(body, None, "", unknown), None, "", causes)
    wrong_kind = [] if spec["names"]["kind"] == body["kind"] else ["another kind"]
    return [*wrong_kind, *unknown, *map(str, causes)]


def shown_sets(adapter: GenericJob[Any], body: dict[str, Any]) -> dict[str, tuple[int, Any]]:
    """Return the count and the requests of one pod, by pod set, of a job as received."""
    job = msgspec.json.decode(msgspec.json.encode(body), type=adapter.object_type)
    shown = {}
    for each in adapter.pod_sets(job):
        one = msgspec.structs.replace(each, count=1)
        shown[each.name] = (each.count, format_amounts(demand_of((one,))))
    return shown


def sample_sets(adapter: GenericJob[Any], name: str) -> list[tuple[str, int]]:
    """Return names and counts of the sample's pod sets; it is suspended, and may be held."""
    job = msgspec.convert(sample(name), adapter.object_type)
    assert adapter.is_suspended(job)
    assert adapter.why_not_suspendable(job) == ""
    return [(each.name, each.count) for each in adapter.pod_sets(job)]
