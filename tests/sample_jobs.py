"""One sample manifest per kind of job, as a user would write it, and the kinds' CRDs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import yaml

from queue_controllers.jobframework.generic_job import GenericJob
from queue_controllers.jobframework.queue_unit_builder import demand_of
from shared_api.resource_list import format_amounts
from shared_api.testing.schema_validation import compile_schema

DATA = Path(__file__).parent / "data"


def sample(name: str) -> dict[str, Any]:
    """Return a sample of tests/data/jobs."""
    loaded: dict[str, Any] = yaml.safe_load((DATA / "jobs" / f"{name}.yaml").read_text("utf-8"))
    return loaded


def crd(plural: str) -> dict[str, Any]:
    """Return a CRD of tests/data/crds."""
    loaded: dict[str, Any] = yaml.safe_load((DATA / "crds" / f"{plural}.yaml").read_text("utf-8"))
    return loaded


def troubles_of(body: dict[str, Any], plural: str) -> list[str]:
    """Return what the API server would drop or refuse of an object."""
    (version,) = (each for each in crd(plural)["spec"]["versions"] if each["served"])
    schema = compile_schema(version["schema"]["openAPIV3Schema"])
    unknown: list[str] = []
    causes: list[Any] = []
    schema.check(schema.normalise(body, None, "", unknown), None, "", causes)
    return unknown + [str(each) for each in causes]


def shown_sets(adapter: GenericJob[Any], body: dict[str, Any]) -> dict[str, tuple[int, Any]]:
    """Return counts and requests of one pod, by pod set, of an object as it comes."""
    job = msgspec.convert(body, adapter.object_type)
    shown = {}
    for each in adapter.pod_sets(job):
        one = msgspec.structs.replace(each, count=1)
        shown[each.name] = (each.count, format_amounts(demand_of((one,))))
    return shown
