"""A dump without names. Pure.

Every text is renamed word by word (``renaming``), unless its field is listed here and it is of the
few forms that such a field has: numbers, times, kinds, and reasons of this program. So a field that
is forgotten is renamed, not shown. Names of resources stay. Sentences that others have written are
removed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from queue_insight.dump.contents import KIND, NOT_CARRIED, Dump
from queue_insight.dump.renaming import Renaming, words_of
from queue_insight.dump.take import KEPT_ANNOTATIONS
from queue_scheduler.decision import Reason
from queue_scheduler.plugins.default_group import NAME as DEFAULT_GROUP
from queue_scheduler.plugins.elastic_quota import NAME as ELASTIC_QUOTA
from queue_scheduler.plugins.elastic_quota_tree import NAME as ELASTIC_QUOTA_TREE
from queue_scheduler.plugins.priority import Priority
from queue_scheduler.plugins.resource_quota import NAME as RESOURCE_QUOTA
from queue_scheduler.preemption.nomination import for_whom_mark, read_for_whom
from queue_scheduler.queueing.queue_options import StopPolicy
from queue_scheduler.queueing.queue_policies import BUILT_IN_POLICIES
from queue_scheduler.tenants.budget_rules import Enforce
from queue_scheduler.tenants.periods import Period
from shared_api import evictions, queue_unit_phases
from shared_api.objects.queue_reservation import CONTINUE, EVICT, START, WAIT
from shared_api.objects.quota_policy import COUNT, DECLARED, FORGIVE, REFUSE
from shared_api.queue_unit_phases import Phase
from shared_api.submitters import NAMESPACE_USER
from shared_api.well_known_kinds import KNOWN_JOB_KINDS
from shared_api.well_known_labels import (
    AVAILABLE_QUOTA,
    AVAILABLE_QUOTA_IN_NAMESPACE,
    CREATED_BY_KOORD_QUEUE,
    GATED_BY,
    GROUP,
    KOORDINATOR_POD_GROUP,
    KUEUE_POD_GROUP,
    KUEUE_QUEUE_NAME,
    LEND_LIMIT,
    NODE_RESERVATION,
    PARENT_QUOTA_FULLNAME,
    PARKED_FROM,
    PARKED_IN,
    PODS_REFUSED,
    PREEMPT_LOWER_PRIORITY,
    QUEUE_NAME,
    QUOTA_FULLNAME,
    QUOTA_NAMESPACES,
    QUOTA_PARENT,
    QUOTA_QUEUE_ENABLE,
    QUOTA_SHARED_WEIGHT,
    QUOTA_SPELLINGS,
    QUOTA_TOTAL_RESOURCE,
    QUOTA_TREE_ID,
    RELATED_POD_SET,
    RELATED_QUEUE_UNIT,
    STAMPED_QUOTA,
    SUBMITTED_BY,
    TREE_PREEMPT_POLICY,
    USER,
    spellings,
)

REMOVED: Final = "(text removed)"

_PLUGINS: Final = frozenset(
    (DEFAULT_GROUP, ELASTIC_QUOTA, ELASTIC_QUOTA_TREE, Priority.name, RESOURCE_QUOTA)
)

_HARMLESS: Final = re.compile(
    r"|[*]|[0-9.,/+-]{1,64}|[-+]?([0-9.]{1,20}[A-Za-z]{1,2}){1,6}"
    r"|[0-9-]{10}T[0-9:.]{5,20}(Z|[-+][0-9:]{5})?"
    r"|FREQ=(DAILY|WEEKLY|MONTHLY|YEARLY)(;(INTERVAL|COUNT|UNTIL|BYMONTH|BYMONTHDAY|BYDAY|BYSETPOS"
    r"|WKST)=([-+0-9,TZ]|MO|TU|WE|TH|FR|SA|SU){1,100}){0,8}"
)
"""Nothing, a wildcard, numbers, a quantity or duration, a time, a recurrence rule."""

_TEXTS: Final = frozenset(
    value
    for module in (evictions, queue_unit_phases)
    for name, value in vars(module).items()
    if name.isupper() and isinstance(value, str)
)
_KNOWN: Final = (
    _TEXTS
    | KNOWN_JOB_KINDS
    | frozenset((*Phase, *Reason, *StopPolicy, *NOT_CARRIED))
    | frozenset(policy.name for policy in BUILT_IN_POLICIES)
    | frozenset(("true", "false", "True", "False", "Unknown", "Pending", "Ready", "Retry"))
    | frozenset(("Rejected", "Active", "Never", "LowerPriority", "Any", PREEMPT_LOWER_PRIORITY))
    | frozenset(("In", "NotIn", "Exists", "DoesNotExist", "Always", "finished", "failed"))
    | frozenset(("evicted", "deleted", "koord-queue-controllers", KIND))
    | frozenset(("user", "group", "namespace", "quota", "Within", "First"))
    | frozenset((*Period, *Enforce, "UTC", DECLARED, REFUSE, COUNT, FORGIVE, WAIT, START))
    | frozenset((CONTINUE, EVICT))
    | frozenset(("Default", "ReservedCPUsOnly", "ReservedCPUsIgnored"))
)
"""Words that fields of `_CHECKED` have."""

_CHECKED: Final = frozenset(
    (
        *("phase", "status", "reason", "type", "state", "operator", "effect", "told_of", "kind"),
        *("queuePolicy", "policyInForce", "stopPolicyInForce", "ended_by", "created"),
        *("restartPolicy", "resourceVersion", "version", "creationTimestamp", "requeueAt"),
        *("levels", "halfLife", "minimumCharge", "priority", "mantissa"),
        *("deletionTimestamp", "lastTransitionTime", "lastUpdateTime", "lastAllocateTime"),
        *("jobCreationTimestamp", "lastTime", "oversellRate", "takenAt", "notCarried", "until"),
        *("period", "timeZone", "time_zone", "enforce", "reserve", "undeclared", "grace", "debt"),
        *("start", "duration", "rrule", "margin", "atStart"),
    )
)
"""Fields that keep what is `_HARMLESS` or `_KNOWN`."""

_AS_THEY_ARE: Final = frozenset(("resource", "counted", "stage"))
"""Fields with names of resources, and those whose values are this program's."""

_AMOUNTS: Final = frozenset(
    (
        *("requests", "limits", "min", "max", "hard", "allocatable", "used", "resources"),
        *("request", "resource", "overhead", "charge", "amounts", "small"),
        *("accounts", "maxima", "minimum", "np_minima", "np_used", "nodes", "taken"),
        "price",
        "resourceWeights",
    )
)
"""Objects with names of resources as fields, where all values are amounts."""

_SENTENCES: Final = frozenset(("message", "detail", "problem", "unreadable"))
_UIDS: Final = frozenset(("uid", "owner", "countedFor", "heldFor", "podOwners", "failed"))
_LABELS: Final = frozenset(("labels", "annotations", "attributes", "matchLabels", "nodeSelector"))

_NAMING: Final = frozenset(
    spelled
    for key in (
        *(
            *QUOTA_SPELLINGS,
            *AVAILABLE_QUOTA,
            *AVAILABLE_QUOTA_IN_NAMESPACE,
            *KOORDINATOR_POD_GROUP,
        ),
        *(QUEUE_NAME, QUOTA_FULLNAME, PARENT_QUOTA_FULLNAME, QUOTA_NAMESPACES, QUOTA_PARENT),
        *(QUOTA_TREE_ID, USER, GROUP, SUBMITTED_BY, GATED_BY),
        *(RELATED_QUEUE_UNIT, RELATED_POD_SET, STAMPED_QUOTA),
        *(PARKED_IN, PARKED_FROM),
        *(KUEUE_QUEUE_NAME, KUEUE_POD_GROUP),
    )
    for spelled in spellings(key)
)
"""Labels and annotations of `_OWN_KEYS` whose values are names, even if these are numbers."""

_OWN_KEYS: Final = KEPT_ANNOTATIONS | {
    CREATED_BY_KOORD_QUEUE,
    QUOTA_QUEUE_ENABLE,
    TREE_PREEMPT_POLICY,
}

_IN_JSON: Final = frozenset(
    (LEND_LIMIT, NODE_RESERVATION, QUOTA_SHARED_WEIGHT, QUOTA_TOTAL_RESOURCE)
)
"""Annotations with JSON: amounts of resources."""

_PUBLIC_KEY: Final = re.compile(r"([a-z0-9-]+[.])*(kubernetes[.]io|k8s[.]io)/[A-Za-z0-9._-]{1,63}")
"""Labels that Kubernetes itself defines, such as a node's zone; their values are renamed."""

_DURATIONS: Final = ("defaultReclaimProtectTime", "admissionCheckTimeout")

Rename = Callable[[str], str]


def anonymize(dump: Dump, key: str = "") -> Dump:
    """Return a dump without names.

    Args:
        dump: The dump.
        key: Marks names, to find the same ones in another dump with this key; "": no marks.
    """
    tree = _pared(msgspec.to_builtins(dump))
    words: set[str] = set()
    uids: set[str] = set()
    _Walk(lambda name: _collect(words, words_of(name)), lambda uid: _collect(uids, [uid])).of(tree)
    names = Renaming(words, key)
    digits = len(str(len(uids)))
    numbered = {uid: f"uid-{number:0{digits}}" for number, uid in enumerate(sorted(uids - {""}))}
    renamed = _Walk(names.rename, lambda uid: numbered.get(uid, "")).of(tree)
    return msgspec.convert({**renamed, "anonymized": True}, Dump)


def _collect(found: set[str], words: Iterable[str]) -> str:
    found.update(words)
    return ""


def _pared(tree: dict[str, Any]) -> dict[str, Any]:
    """Return a dump without what other packages define: nobody here knows what that says."""
    settings = tree["settings"]
    before = settings["configuration"]
    plugins, configs = before.get("plugins", ()), before.get("pluginConfigs", {})
    configuration = {
        "plugins": [each for each in plugins if each["name"] in _PLUGINS],
        "pluginConfigs": {name: each for name, each in configs.items() if name in _PLUGINS},
        **{name: before[name] for name in _DURATIONS if name in before},
        "quotaNamespaces": before["quotaNamespaces"],
    }
    if "accounts" in before:  # a time zone says where a company is
        configuration["accounts"] = {"enabled": before["accounts"]["enabled"]}
    others = len(tree["leftOut"]) + len(plugins) - len(configuration["plugins"])
    left_out = ["plugin of another package"] * others
    settings = {**settings, "configuration": configuration}
    return {**tree, "settings": settings, "leftOut": left_out}


class _Walk:
    """Replaces the texts of a dump.

    Args:
        rename: Replaces a name, or a text with names.
        number: Replaces a uid.
    """

    def __init__(self, rename: Rename, number: Rename) -> None:
        self._rename = rename
        self._number = number

    def of(self, tree: dict[str, Any]) -> dict[str, Any]:
        """Return a dump with other texts."""
        settings = dict(tree["settings"])
        configuration = settings.pop("configuration")
        checked = {
            name: self._amount(each) if name in _DURATIONS else each
            for name, each in configuration.items()
        }
        settings = {**self._object("settings", settings), "configuration": checked}
        parts = {"settings": settings, "leftOut": tree["leftOut"]}
        rest = {name: self._value(name, each) for name, each in tree.items() if name not in parts}
        return {**rest, **parts}

    def _value(self, name: str, value: Any) -> Any:  # noqa: ANN401 - any part of a JSON tree
        if isinstance(value, str):
            return self._text(name, value)
        if isinstance(value, list | tuple | set | frozenset):
            if name == "runtimes":
                return [[self._rename(quota), *rest] for quota, *rest in value]
            return [self._value(name, each) for each in value]
        return self._object(name, value) if isinstance(value, dict) else value

    def _object(self, name: str, value: dict[str, Any]) -> dict[str, Any]:
        if name in _LABELS:
            return {self._key(key): self._label(key, each) for key, each in value.items()}
        if name == "matchExpressions":
            return self._expression(value)
        if name == "scopeSelector":
            return {
                "matchExpressions": self._value(
                    "matchExpressions", value.get("matchExpressions", [])
                )
            }
        if name in {"inactive", "queueItemDetails"}:
            return {self._rename(key): self._value("message", each) for key, each in value.items()}
        if name == "rests":
            return {self._number(key): each for key, each in value.items()}
        if name in _AMOUNTS and all(isinstance(each, str | int | float) for each in value.values()):
            return {resource: self._amount(each) for resource, each in value.items()}
        return {key: self._value(key, each) for key, each in value.items()}

    def _text(self, name: str, text: str) -> str:
        if name in _UIDS:
            return self._number(text)
        if name in _SENTENCES:
            return self._sentence(text)
        if name in _AS_THEY_ARE:
            return text
        if text.startswith(NAMESPACE_USER):
            return NAMESPACE_USER + self._rename(text.removeprefix(NAMESPACE_USER))
        return self._checked(text) if name in _CHECKED else self._rename(text)

    def _checked(self, text: str) -> str:
        return text if text in _KNOWN or _HARMLESS.fullmatch(text) else self._rename(text)

    def _amount(self, amount: Any) -> Any:  # noqa: ANN401 - a quantity as Kubernetes has it
        return self._checked(amount) if isinstance(amount, str) else amount

    def _sentence(self, text: str) -> str:
        whom = read_for_whom(text)
        if whom:
            return f"{for_whom_mark(self._rename(whom))}{REMOVED}"
        return text if not text or text in _TEXTS else REMOVED

    # --- labels -------------------------------------------------------------------------------

    def _key(self, key: str) -> str:
        is_public = key in _OWN_KEYS or _PUBLIC_KEY.fullmatch(key)
        return key if is_public else self._rename(key)

    def _label(self, key: str, value: str) -> str:
        if key in _NAMING or key not in _OWN_KEYS:
            return self._rename(value)
        if key == PODS_REFUSED:
            return REMOVED
        return self._in_json(value) if key in _IN_JSON else self._checked(value)

    def _in_json(self, value: str) -> str:
        try:
            tree = msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):
            return self._rename(value)
        return msgspec.json.encode(self._json_part(tree)).decode()

    def _json_part(self, part: Any) -> Any:  # noqa: ANN401 - any part of a JSON tree
        if isinstance(part, dict):
            return {key: self._json_part(each) for key, each in part.items()}
        if isinstance(part, list):
            return [self._json_part(each) for each in part]
        return self._amount(part)

    def _expression(self, value: dict[str, Any]) -> dict[str, Any]:
        """Return one expression of a label selector, or of a selector of scopes."""
        if "scopeName" in value:
            names = ("scopeName", "operator", "values")
            return {name: self._value(name, value[name]) for name in names if name in value}
        key = value.get("key", "")
        return {
            **{name: self._value(name, each) for name, each in value.items()},
            "key": self._key(key),
            "values": [self._label(key, each) for each in value.get("values", ())],
        }
