"""What the flags of `what-if` mean as edits. Pure: objects are handed in."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from koord_queue.errors import EXIT_USAGE, CommandError
from shared_api.quantity import QuantityError, amount, format_amount
from shared_api.well_known_labels import PREFIX

Json = dict[str, Any]

_QUOTA: Final = re.compile(r"(.+?)\.(min|max)\.([^=]+)=(.+)")
QUOTA_FORM: Final = "NAME.max.RESOURCE=VALUE or NAME.min.RESOURCE=VALUE, as team-a.max.cpu=+40"
_QUEUE: Final = re.compile(r"(.+?)\.([^=]+)=(.*)")
QUEUE_FORM: Final = "NAME.priority=N, NAME.policy=P, or NAME.ANNOTATION=VALUE"
_NODE: Final = re.compile(r"(.+)\.copies=([0-9]+)")
NODE_FORM: Final = "NAME.copies=N"
NONE: Final = "none"
"""Removes what is there."""

_TREE: Final = "ElasticQuotaTree"
_HARD: Final = "ResourceQuota"


class QuotaFlag(NamedTuple):
    """One `--quota`.

    Attributes:
        name: The name of the quota; `namespace/name` where it is in several.
        bound: `min` or `max`.
        resource: The resource.
        value: A quantity; `+N` or `-N`: relative to the present one; `none`: without a bound.
    """

    name: str
    bound: str
    resource: str
    value: str


def read_quota_flag(text: str) -> QuotaFlag:
    """Return what a `--quota` says.

    Raises:
        CommandError: It has another form.
    """
    return QuotaFlag(*_read("--quota", text, _QUOTA, QUOTA_FORM))


def queue_edit(text: str) -> Json:
    """Return what a `--queue` asks for.

    Raises:
        CommandError: It has another form.
    """
    name, key, value = _read("--queue", text, _QUEUE, QUEUE_FORM)
    given = None if value == NONE else value
    if key == "priority":
        try:
            patch: Json = {"spec": {"priority": None if given is None else int(given)}}
        except ValueError as error:
            raise CommandError(
                f"--queue {text}: {value} is no whole number", exit_code=EXIT_USAGE
            ) from error
    elif key == "policy":
        patch = {"spec": {"queuePolicy": given}}
    else:
        annotation = key if "/" in key else f"{PREFIX}{key}"
        patch = {"metadata": {"annotations": {annotation: given}}}
    return {"kind": "Queue", "name": name, "patch": patch}


def node_edit(text: str) -> Json:
    """Return what a `--node` asks for.

    Raises:
        CommandError: It has another form.
    """
    name, copies = _read("--node", text, _NODE, NODE_FORM)
    return {"kind": "Node", "name": name, "copies": int(copies)}


def _read(flag: str, text: str, pattern: re.Pattern[str], form: str) -> tuple[str, ...]:
    """Return the parts of a flag's value."""
    found = pattern.fullmatch(text)
    if found is None:
        raise CommandError(f"{flag} {text}: this cannot be read", f"Write {form}.", EXIT_USAGE)
    return found.groups()


# --- quotas -------------------------------------------------------------------------------------


def quota_edits(flags: Sequence[QuotaFlag], objects: Sequence[Json]) -> list[Json]:
    """Return one edit for each object that `--quota` flags change.

    Args:
        flags: In their order: a later one counts from what an earlier one has made.
        objects: The ElasticQuotas, ElasticQuotaTrees and ResourceQuotas that there are.

    Raises:
        CommandError: There is no such quota, or several; or a value is none.
    """
    edited: dict[int, tuple[Json, Json]] = {}
    for flag in flags:
        place, node = _find(flag, objects)
        own = objects[place]
        if place not in edited:
            edited[place] = (copy.deepcopy(own), {})
        changed, patch = edited[place]
        if own["kind"] == _TREE:
            target = _node_of(changed, node)
            _set(target, flag, flag.bound)
            # A list is replaced as a whole by a merge patch, so all of the tree is in it.
            patch["spec"] = {"root": changed["spec"]["root"]}
        else:
            bound = "hard" if own["kind"] == _HARD else flag.bound
            value = _set(changed.setdefault("spec", {}), flag, bound)
            patch.setdefault("spec", {}).setdefault(bound, {})[flag.resource] = value
    return [
        {
            "kind": changed["kind"],
            "namespace": changed["metadata"].get("namespace", ""),
            "name": changed["metadata"]["name"],
            "patch": patch,
        }
        for changed, patch in edited.values()
    ]


def _find(flag: QuotaFlag, objects: Sequence[Json]) -> tuple[int, str]:
    """Return the place of the object that has a quota, and the name of the quota in it."""
    namespace, _, name = flag.name.rpartition("/")
    found = [
        (place, name)
        for place, each in enumerate(objects)
        if namespace in {"", each["metadata"].get("namespace", "")} and name in _names(each)
    ]
    kinds = {objects[place]["kind"] for place, _ in found}
    if len(kinds) > 1:  # a ResourceQuota counts where no other quota has the name
        found = [each for each in found if objects[each[0]]["kind"] != _HARD]
    if not found:
        known = sorted({name for each in objects for name in _names(each)})
        raise CommandError(
            f"there is no quota {flag.name}", f"Known: {', '.join(known[:20])}." if known else ""
        )
    if len(found) > 1:
        places = [objects[place]["metadata"].get("namespace", "") for place, _ in found]
        where = ", ".join(f"{each}/{name}" for each in places)
        raise CommandError(f"several quotas are called {name}: {where}", "Write which one.")
    return found[0]


def _names(own: Json) -> set[str]:
    if own["kind"] == _TREE:
        return {node.get("name", "") for node in _nodes(own.get("spec", {}).get("root", {}))}
    return {own["metadata"]["name"]}


def _nodes(node: Json) -> Iterator[Json]:
    yield node
    for child in node.get("children", ()):
        yield from _nodes(child)


def _node_of(tree: Json, name: str) -> Json:
    return next(each for each in _nodes(tree["spec"]["root"]) if each.get("name") == name)


def _set(target: Json, flag: QuotaFlag, bound: str) -> str | None:
    """Set a bound; return its value for a patch, None to remove it."""
    values: Json = target.setdefault(bound, {})
    if flag.value == NONE:
        values.pop(flag.resource, None)
        return None
    value = _sum(values, flag, bound) if flag.value[0] in "+-" else flag.value
    _check(flag, value)
    values[flag.resource] = value
    return value


def _sum(values: Mapping[str, Any], flag: QuotaFlag, bound: str) -> str:
    present = values.get(flag.resource)
    if present is None:
        without = "is not limited" if bound != "min" else "is not guaranteed"
        raise CommandError(
            f"quota {flag.name}: {flag.resource} {without}, so {flag.value} has no base",
            "Write the value without + or -.",
        )
    sign = -1 if flag.value[0] == "-" else 1
    more = _check(flag, flag.value[1:])
    total = amount(flag.resource, present) + sign * more
    if total < 0:
        raise CommandError(f"quota {flag.name}: {flag.value} is more than the {present} there are")
    return format_amount(flag.resource, total)


def _check(flag: QuotaFlag, value: str) -> int:
    try:
        return amount(flag.resource, value)
    except QuantityError as error:
        raise CommandError(
            f"--quota {flag.name}: {error}", f"Write {QUOTA_FORM}.", EXIT_USAGE
        ) from error
