"""Creating and deleting CRDs of a real API server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from tests.controlplane.api_client import ApiError
from tests.controlplane.control_plane import ControlPlane
from tests.waiting import until

Json = dict[str, Any]

_NOT_FOUND: Final = HTTPStatus.NOT_FOUND
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def install_crds(plane: ControlPlane, *definitions: Json) -> None:
    """Create or change CRDs, and wait until objects can be listed in served versions alone."""
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": definitions})
    plane.kubectl("apply", "--server-side", "--filename", "-", input=text)
    for each in definitions:
        for path, is_served in _paths(each["spec"]):
            until(partial(_is_answered, plane, path, HTTPStatus.OK if is_served else _NOT_FOUND))


def remove_crd(plane: ControlPlane, name: str) -> None:
    """Delete a CRD with all of its objects, and wait until it is gone."""
    path = f"{_CRDS}/{name}"
    plane.client_for().request("DELETE", path)
    until(partial(_is_answered, plane, path, _NOT_FOUND))


def _paths(spec: Json) -> Iterator[tuple[str, bool]]:
    for version in spec["versions"]:
        path = f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}"
        yield path, version["served"]


def _is_answered(plane: ControlPlane, path: str, status: HTTPStatus) -> bool:
    """Return whether a GET has this status; a new kind answers 404, then 429 for a while."""
    try:
        plane.client_for().request("GET", path)
    except ApiError as error:
        return error.status == status
    return status == HTTPStatus.OK
