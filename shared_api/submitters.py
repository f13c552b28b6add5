"""Who submitted a job: the user and the group that its unit counts for. Pure.

A label is a word that anybody who may create jobs can write, so it proves nothing. Where the
chart's admission policies for users are on (`admissionPolicy.users`), the API server writes the
annotation `koord-queue/submitted-by` from the request, and denies a group that is none of the
requester's: then the annotation counts, and the label `koord-queue/user` does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from shared_api.well_known_labels import GROUP, SUBMITTED_BY, USER

NAMESPACE_USER: Final = "namespace:"
"""Begins the name of the user that a namespace counts as. No Kubernetes user should have it: the
admission policies refuse such names."""


NAMES_NOT_PROVED: Final = (
    f"names of users are not proved: limits and shares count for whom the label {USER} names, which"
    " anybody who may create jobs can write (the chart's value admissionPolicy.users proves them)"
)


class Submitter(NamedTuple):
    """Who submitted a job.

    Attributes:
        user: The user's name, or `namespace:NS` where none is known.
        group: The group that the job was submitted for; "": none.
    """

    user: str
    group: str


def namespace_submitter(namespace: str) -> Submitter:
    """Return the submitter that all objects of a namespace count for that name nobody."""
    return Submitter(NAMESPACE_USER + namespace, "")


def problems_of_names(*, are_used: bool, are_proved: bool) -> tuple[str, ...]:
    """Return what is wrong with the names of users, as sentences for administrators.

    Args:
        are_used: Whether anything counts by user or group: where nothing does, nothing is wrong.
        are_proved: Whether the API server proves names.
    """
    return (NAMES_NOT_PROVED,) if are_used and not are_proved else ()


def submitter_name(labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    """Return who submitted an object, as it says itself, to show and to search; "": nobody.

    The exact name, if a label cannot hold it, else the label: that may be a hash.
    """
    return labels.get(USER, "") or annotations.get(SUBMITTED_BY, "")


def read_submitter(
    namespace: str,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    *,
    are_proved: bool,
) -> Submitter:
    """Return who submitted an object.

    Args:
        namespace: The object's namespace.
        labels: Its labels.
        annotations: Its annotations.
        are_proved: Whether the API server proves names. Then only `koord-queue/submitted-by`
            counts, and a group only beside it. Otherwise the label counts, as its user wrote it.
    """
    user = annotations.get(SUBMITTED_BY, "") if are_proved else labels.get(USER, "")
    if not user or user.startswith(NAMESPACE_USER):
        # The prefix is nobody's name: otherwise a label could name another namespace.
        return namespace_submitter(namespace)
    return Submitter(user, labels.get(GROUP, ""))
