"""What objects say of themselves, read off their JSON.

Judges of the programs share it, so nothing here imports the programs' own reading of objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Json = Mapping[str, Any]

CHARGED_PHASES: Final = frozenset(
    ("Reserved", "Dequeued", "Running", "SchedReady", "SchedSucceed", "SchedFailed")
)
"""Of units that hold quota."""

ADMITTED_PHASES: Final = frozenset(("Dequeued", "Running", "SchedSucceed"))
"""Of units whose pods may exist."""

ENDED_POD_PHASES: Final = frozenset(("Succeeded", "Failed"))


def phase_of(unit: Json) -> str:
    """Return a unit's phase; a unit without a status is Enqueued."""
    return str(unit.get("status", {}).get("phase") or "Enqueued")


def occupies_quota(unit: Json) -> bool:
    """Return whether a unit has been granted quota that it has not given back."""
    return phase_of(unit) in CHARGED_PHASES


def is_admitted(unit: Json) -> bool:
    """Return whether the job of a unit may have pods."""
    return phase_of(unit) in ADMITTED_PHASES and not is_true(unit, "Evicted")


def is_living(pod: Json) -> bool:
    """Return whether a pod holds what it asks for, terminating or not."""
    return pod.get("status", {}).get("phase") not in ENDED_POD_PHASES


def is_true(thing: Json, *condition_types: str) -> bool:
    """Return whether an object has a condition of one of these types that is True."""
    return any(
        each["type"] in condition_types and each["status"] == "True"
        for each in thing.get("status", {}).get("conditions") or ()
    )


def condition_of(thing: Json, condition_type: str) -> dict[str, Any]:
    """Return a condition of an object, {} if it has none of that type."""
    conditions = thing.get("status", {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == condition_type), {})
