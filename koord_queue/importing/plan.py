"""What an import would write, and what it leaves out. Pure values."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from shared_api.well_known_labels import CREATED_BY, CREATED_BY_IMPORT

Json = dict[str, Any]

MADE_BY: Final = CREATED_BY
"""Label of objects that an import has made: only these are changed by a later import."""
MADE_BY_VALUE: Final = CREATED_BY_IMPORT

NOTHING: Final = "nothing: see below"
"""What is said of an object that becomes nothing, for a reason that is in the list of these."""


class Became(msgspec.Struct, frozen=True):
    """One object of the other queue, and what it becomes.

    Attributes:
        source: Kind and name there: `ClusterQueue team-a`.
        target: Kind and name here; "" if it becomes nothing.
        how: The values that it gets, for people.
    """

    source: str
    target: str
    how: str


class Lost(msgspec.Struct, frozen=True):
    """What cannot be carried over.

    Attributes:
        source: Kind and name of the object.
        field: The path of the field in it, such as `spec.admissionScope`.
        why: Why not, and what can be done, without a period.
    """

    source: str
    field: str
    why: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """All that an import would do.

    Attributes:
        objects: Bodies, in the order in which they are written. Of a Namespace only the
            annotations are meant, which are added to those that it has.
        became: What becomes what, one for each object that was read.
        lost: What cannot be carried over.
    """

    objects: tuple[Json, ...] = ()
    became: tuple[Became, ...] = ()
    lost: tuple[Lost, ...] = ()

    @property
    def quotas(self) -> frozenset[str]:
        """The names of the ElasticQuotas that are written."""
        made = (each for each in self.objects if each["kind"] == "ElasticQuota")
        return frozenset(each["metadata"]["name"] for each in made)

    def __add__(self, other: Plan) -> Plan:
        """Return both plans as one."""
        return Plan(
            objects=self.objects + other.objects,
            became=self.became + other.became,
            lost=self.lost + other.lost,
        )


def own_metadata(name: str, namespace: str = "", **more: dict[str, str]) -> Json:
    """Return metadata of an object that an import makes.

    Args:
        name: The name of the object.
        namespace: "" of an object without one.
        more: `labels` and `annotations`; empty ones are left out.
    """
    labels = {MADE_BY: MADE_BY_VALUE, **more.pop("labels", {})}
    where = {"namespace": namespace} if namespace else {}
    kept = {key: value for key, value in more.items() if value}
    return {"name": name, **where, "labels": labels, **kept}


def shown(body: Json) -> str:
    """Return kind and name of an object: `ElasticQuota koord-queue/team-a`."""
    metadata = body["metadata"]
    where = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{body['kind']} {where}{metadata['name']}"
