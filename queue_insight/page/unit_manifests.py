"""A unit and its job as the API server has them, read with the token of who looks at them.

Nothing else is read by this way, whatever a unit's fields say: these are what its creator wrote.
"""

from __future__ import annotations

import re
from typing import Final

from queue_insight.page.manifests import read_manifest
from queue_insight.page.unit_objects import UnitObjects
from queue_insight.page.visitor_client import (
    VisitorClient,
    is_segment,
    not_there,
    segment,
)
from shared_api.client.discovery import served_kinds
from shared_api.client.resource_types import PODS, QUEUE_UNITS

_VERSION: Final = re.compile(r"v[0-9][a-z0-9]*")
_PLURAL: Final = re.compile(r"[a-z][a-z0-9-]*")
_KIND: Final = re.compile(r"[A-Za-z0-9]{1,63}")


def read_unit(client: VisitorClient, unit: UnitObjects) -> bytes:
    """Return a unit as `ManifestView`, as JSON."""
    return read_manifest(lambda: client.get_raw(_unit_path(unit)))


def read_job(client: VisitorClient, unit: UnitObjects) -> bytes:
    """Return the job of a unit as `ManifestView`, as JSON."""
    return read_manifest(lambda: client.get_raw(_job_path(client, unit)))


def _unit_path(unit: UnitObjects) -> str:
    return QUEUE_UNITS.path(segment(unit.namespace), segment(unit.name))


def _job_path(client: VisitorClient, unit: UnitObjects) -> str:
    """Return the path of a unit's job, whose kind and name are what the unit's creator wrote.

    Raises:
        ApiFailure: There is none, or what is named is not a kind of jobs: of the core group only
            pods are, so that no unit leads to a Secret.
    """
    job = unit.job
    if job is None:
        raise not_there("the unit names no job")
    group, slash, version = job.api_version.rpartition("/")
    if not slash and (version, job.kind) == ("v1", PODS.kind):
        return PODS.path(segment(unit.namespace), segment(job.name))
    if not (is_segment(group) and _VERSION.fullmatch(version) and _KIND.fullmatch(job.kind)):
        raise not_there("what the unit names is no job")
    for kind in served_kinds(client, group, version).values():
        if kind.kind == job.kind and kind.namespaced and _PLURAL.fullmatch(kind.plural):
            root = f"/apis/{group}/{version}/namespaces/{segment(unit.namespace)}"
            return f"{root}/{kind.plural}/{segment(job.name)}"
    raise not_there(f"the API server has no kind {job.kind} of {group}/{version}")
