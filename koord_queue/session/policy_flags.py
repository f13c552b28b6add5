"""What `--policy` of `what-if` means as edits: JSON patches of QuotaPolicies. Pure.

A merge patch would replace a list as a whole, so an entry is changed by a JSON patch: with a test
of the value that it was counted from, as `explain --changes` proposes it.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from koord_queue.errors import EXIT_USAGE, CommandError
from koord_queue.session.edit_flags import NONE
from shared_api.json_pointer import pointer_token
from shared_api.quantity import QuantityError, amount, format_amount

Json = dict[str, Any]

_FORM: Final = re.compile(
    r"(?P<name>.+?)\.(?:(?P<limits>userLimits)\[(?P<limit>[0-9]{1,4})\]"
    r"\.(?:max\.(?P<resource>[^=]+)|(?P<count>running|pending))"
    r"|(?P<budgets>budgets)\[(?P<budget>[0-9]{1,4})\]\.(?P<field>hours|amount))=(?P<value>.+)"
)
FORM: Final = (
    "NAME.userLimits[N].max.RESOURCE=VALUE, NAME.userLimits[N].running=VALUE (or pending), or"
    " NAME.budgets[N].hours=VALUE (or amount), as vision.userLimits[0].max.cpu=+4"
)
_COUNT: Final = "pods"
"""A resource whose amounts are whole numbers, as running and pending are."""
_HOURS: Final = "cpu"
"""One whose amounts have thousandths, as hours and amounts do."""


class PolicyFlag(NamedTuple):
    """One `--policy`.

    Attributes:
        name: The name of the QuotaPolicy.
        path: Where the value is: keys, and places in lists.
        measure: The resource by which values are read.
        value: A quantity; `+N` or `-N`: relative to the present one; `none`: without a limit.
        text: As it was typed.
    """

    name: str
    path: tuple[str | int, ...]
    measure: str
    value: str
    text: str


def read_policy_flag(text: str) -> PolicyFlag:
    """Return what a `--policy` says.

    Raises:
        CommandError: It has another form.
    """
    found = _FORM.fullmatch(text)
    if found is None:
        raise CommandError(f"--policy {text}: this cannot be read", f"Write {FORM}.", EXIT_USAGE)
    name, resource, count = found["name"], found["resource"], found["count"]
    path: tuple[str | int, ...]
    if found["budgets"]:
        path, measure = ("budgets", int(found["budget"]), found["field"]), _HOURS
    elif resource:
        path, measure = ("userLimits", int(found["limit"]), "max", resource), resource
    else:
        path, measure = ("userLimits", int(found["limit"]), count), _COUNT
    return PolicyFlag(name, path, measure, found["value"], text)


def policy_edits(flags: Sequence[PolicyFlag], policies: Sequence[Json]) -> list[Json]:
    """Return one edit for each policy that `--policy` flags change.

    Args:
        flags: In their order: a later one counts from what an earlier one has made.
        policies: The QuotaPolicies that there are.

    Raises:
        CommandError: There is no such policy or entry, or a value is none.
    """
    edited: dict[str, tuple[Json, list[Json]]] = {}
    for flag in flags:
        if flag.name not in edited:
            edited[flag.name] = (copy.deepcopy(_find(flag, policies)), [])
        policy, operations = edited[flag.name]
        operations += _change(flag, policy)
    return [
        {
            "kind": "QuotaPolicy",
            "namespace": policy["metadata"].get("namespace", ""),
            "name": name,
            "operations": operations,
        }
        for name, (policy, operations) in edited.items()
    ]


def _find(flag: PolicyFlag, policies: Sequence[Json]) -> Json:
    known = {each["metadata"]["name"]: each for each in policies}
    if flag.name not in known:
        names = ", ".join(sorted(known)[:20])
        raise CommandError(
            f"there is no QuotaPolicy {flag.name}", f"Known: {names}." if names else ""
        )
    return known[flag.name]


def _change(flag: PolicyFlag, policy: Json) -> list[Json]:
    """Change a value in a policy; return the operations that do it."""
    list_name, place, *keys = flag.path
    entries = policy.get("spec", {}).get(str(list_name), [])
    if not isinstance(place, int) or place >= len(entries):
        raise CommandError(f"--policy {flag.text}: {list_name} has {len(entries)} entries, from 0")
    target: Json = entries[place]
    at = f"/spec/{list_name}/{place}"
    operations: list[Json] = []
    if len(keys) > 1:
        if keys[0] not in target:
            target[str(keys[0])] = {}
            operations.append({"op": "add", "path": f"{at}/{keys[0]}", "value": {}})
        target, at = target[str(keys[0])], f"{at}/{keys[0]}"
    key = str(keys[-1])
    at += f"/{pointer_token(key)}"
    present = target.get(key)
    if present is not None:
        # The test fails if the list was edited meanwhile: its entries have no names.
        operations.append({"op": "test", "path": at, "value": present})
    if flag.value == NONE:
        if present is None:
            raise CommandError(f"--policy {flag.text}: there is no such limit")
        del target[key]
        return [*operations, {"op": "remove", "path": at}]
    target[key] = _value(flag, present)
    op = "add" if present is None else "replace"
    return [*operations, {"op": op, "path": at, "value": target[key]}]


def _value(flag: PolicyFlag, present: Any) -> str | int:  # noqa: ANN401 - as it is in the object
    given = flag.value
    try:
        if given[0] not in "+-":
            total = amount(flag.measure, given)
        elif present is None:
            raise CommandError(
                f"--policy {flag.text}: there is no limit, so {given} has no base",
                "Write the value without + or -.",
            )
        else:
            more = amount(flag.measure, given[1:])
            total = amount(flag.measure, present) + (more if given[0] == "+" else -more)
    except QuantityError as error:
        raise CommandError(
            f"--policy {flag.text}: {error}", f"Write {FORM}.", EXIT_USAGE
        ) from error
    if total < 0:
        raise CommandError(f"--policy {flag.text}: {given} is more than the {present} there are")
    return total if flag.measure == _COUNT else format_amount(flag.measure, total)
