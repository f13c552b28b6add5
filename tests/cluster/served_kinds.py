"""CRDs that come to a real API server, and go."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from tests.cluster.queue_world import until
from tests.controlplane.api_client import ApiError
from tests.controlplane.control_plane import ControlPlane

Json = dict[str, Any]

_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def install_crds(plane: ControlPlane, *definitions: Json) -> None:
    """Create or change CRDs; returns when their objects can be listed in every served version."""
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": definitions})
    plane.kubectl("apply", "--server-side", "--filename", "-", input=text)
    for each in definitions:
        for path in _paths(each["spec"]):
            until(partial(_is_served, plane, path))


def remove_crd(plane: ControlPlane, name: str) -> None:
    """Delete a CRD with all of its objects; returns when it is gone."""
    path = f"{_CRDS}/{name}"
    plane.client_for().request("DELETE", path)
    until(lambda: not _is_served(plane, path))


def _paths(spec: Json) -> Iterator[str]:
    for version in spec["versions"]:
        if version["served"]:
            yield f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}"


def _is_served(plane: ControlPlane, path: str) -> bool:
    try:
        plane.client_for().request("GET", path)
    except ApiError:  # 404, then 429 while its storage starts
        return False
    return True
