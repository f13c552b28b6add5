"""What clients ask first."""

from __future__ import annotations

from queue_insight.api_registration.api_service import GROUP
from queue_insight.visibility import discovery
from shared_api.version import VERSION


def test_the_group_has_one_version() -> None:
    (group,) = discovery.group_list()["groups"]
    assert group == {key: value for key, value in discovery.group().items() if key in group}
    assert (group["name"], group["preferredVersion"]["version"]) == (GROUP, "v1alpha1")
    assert group["versions"] == [group["preferredVersion"]]


def test_nothing_can_be_watched_or_deleted() -> None:
    """So a deletion of a namespace does not wait for this API, nor does the garbage collector."""
    found = {each["name"]: each["verbs"] for each in discovery.resource_list()["resources"]}
    assert found == {
        "pendingunits": ["get", "list"],
        "pendingunits/explain": ["get"],
        "pendingunits/forecast": ["get"],
        "queues/pendingunits": ["get"],
        "tries": ["create"],
    }


def test_kubectl_knows_the_short_name() -> None:
    first, *_, tries = discovery.resource_list()["resources"]
    assert (first["shortNames"], first["singularName"]) == (["pu"], "pendingunit")
    assert (tries["kind"], tries["singularName"], tries["namespaced"]) == ("Try", "try", True)


def test_the_version_is_the_programs() -> None:
    got = discovery.version()
    assert got["gitVersion"] == f"v{VERSION}"
    assert VERSION.startswith(f"{got['major']}.{got['minor']}.")
