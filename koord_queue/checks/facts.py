"""What the API server answered, for the checks. Pure values.

Objects stay decoded JSON: a check must also read what another version has written, or what no
version can read.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

Json = Any
PART_OF: Final = "koord-queue"
"""Value of the label `app.kubernetes.io/part-of` of everything that the chart installs."""
COMPONENT: Final = "app.kubernetes.io/component"
VERSION: Final = "app.kubernetes.io/version"
INSTANCE: Final = "app.kubernetes.io/instance"


class Answer(msgspec.Struct, frozen=True):
    """The answer to one question.

    Attributes:
        value: Decoded JSON; None if there is no such object.
        right: The right that the asker lacks, as `list queues in namespace x`; "": none.
        failure: Why there is no answer; "" if there is one.
    """

    value: Json = None
    right: str = ""
    failure: str = ""

    @property
    def is_known(self) -> bool:
        """Whether it was answered, be it that there is no such object."""
        return not self.right and not self.failure

    @property
    def items(self) -> list[Json]:
        """The objects of a list."""
        found = self.value.get("items") if isinstance(self.value, dict) else None
        return found if isinstance(found, list) else []

    @property
    def is_cut(self) -> bool:
        """Whether the list goes on after these objects."""
        return bool(text_of(self.value, "metadata", "continue"))

    def why_unknown(self) -> str:
        """Return why it is not known, for a sentence."""
        return f"you may not {self.right}" if self.right else self.failure


class Right(msgspec.Struct, frozen=True, kw_only=True):
    """A right of a user; `namespace` is "" for all namespaces, or an object without one."""

    verb: str
    group: str = ""
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        """Return it as a person says it."""
        what = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        group = f".{self.group}" if self.group else ""
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.verb} {what}{group}{where}"


class AccountRight(msgspec.Struct, frozen=True):
    """What a service account of a program needs; `answer` has the review's status."""

    account: str
    right: Right
    why: str
    answer: Answer


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was asked.

    Attributes:
        version: The version of this command line.
        now: The time of this machine, when `server_time` was read.
        server_time: The time of the API server, in whole seconds; None if it did not say.
        system_namespace: The namespace of the installation.
        namespace: The namespace of the user.
        server: `/version`.
        crds: By name: `queues`, `queueunits` and the others.
        served: What the API server serves, by group and version.
        mine: What the user may do, by right: the status of a review.
        accounts: What the programs' accounts may do.
        may_review: Whether the user may ask what others may do.
        deployments: The Deployments of the installation.
        leases: The Leases of its namespace.
        config_maps: The ConfigMaps of the installation.
        validating: ValidatingAdmissionPolicies of the chart, and `validating_bindings`.
        mutating: MutatingAdmissionPolicies of the chart, and `mutating_bindings`.
        api_service: The APIService of the aggregated API.
        queues: All that may be listed.
        quota_policies: All that may be listed.
        queue_reservations: All that may be listed.
        quotas: All ElasticQuotas.
        units: All that may be listed.
        events: Warnings, of all namespaces.
        resumed: Events of its namespace that a record goes on.
        all_deployments: All Deployments of its namespace, by any installer.
        schedulers: Deployments of the chart's scheduler, of all namespaces.
        koord_schedulers: Deployments of Koordinator's scheduler, of all namespaces.
        scheduler_configs: Its ConfigMaps, by `namespace/name`.
        unbound_pods: Pods without a node, of all namespaces.
        server_url: The URL of the debug API that the user has named; "": none.
        debug_api: What it answers, where the chart has installed no scheduler.
    """

    version: str
    now: datetime
    server_time: datetime | None = None
    system_namespace: str = PART_OF
    namespace: str = "default"
    server: Answer = Answer()
    crds: Mapping[str, Answer] = {}
    served: Mapping[str, Answer] = {}
    mine: Mapping[Right, Answer] = {}
    accounts: tuple[AccountRight, ...] = ()
    may_review: Answer = Answer()
    deployments: Answer = Answer()
    leases: Answer = Answer()
    config_maps: Answer = Answer()
    validating: Answer = Answer()
    validating_bindings: Answer = Answer()
    mutating: Answer = Answer()
    mutating_bindings: Answer = Answer()
    api_service: Answer = Answer()
    queues: Answer = Answer()
    quota_policies: Answer = Answer()
    queue_reservations: Answer = Answer()
    quotas: Answer = Answer()
    units: Answer = Answer()
    events: Answer = Answer()
    resumed: Answer = Answer()
    all_deployments: Answer = Answer()
    schedulers: Answer = Answer()
    koord_schedulers: Answer = Answer()
    scheduler_configs: Mapping[str, Answer] = {}
    unbound_pods: Answer = Answer()
    server_url: str = ""
    debug_api: Answer = Answer()

    @property
    def time(self) -> datetime:
        """The time that times in objects are compared with: the API server's, if it is known."""
        return self.server_time or self.now


def part(value: Json, *path: str) -> Json:
    """Return a part of an object; None where it, or one on the way, is missing or no mapping."""
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def text_of(value: Json, *path: str) -> str:
    """Return a text of an object, "" where there is none."""
    found = part(value, *path)
    return found if isinstance(found, str) else ""


def list_of(value: Json, *path: str) -> list[Json]:
    """Return a list of an object, empty where there is none."""
    found = part(value, *path)
    return found if isinstance(found, list) else []


def name_of(value: Json) -> str:
    """Return `namespace/name`, or the name of an object without a namespace."""
    namespace, name = text_of(value, "metadata", "namespace"), text_of(value, "metadata", "name")
    return f"{namespace}/{name}" if namespace else name


def label_of(value: Json, key: str) -> str:
    """Return a label, "" where there is none."""
    return text_of(value, "metadata", "labels", key)


def condition_of(value: Json, kind: str) -> Json:
    """Return a condition of the status, or None."""
    for each in list_of(value, "status", "conditions"):
        if part(each, "type") == kind:
            return each
    return None


def serves(answer: Answer, resource: str) -> bool:
    """Return whether a group and version has a resource, by its plural name."""
    return any(part(each, "name") == resource for each in list_of(answer.value, "resources"))


def containers_of(deployment: Json) -> list[Json]:
    """Return the containers of a Deployment's pods."""
    return list_of(deployment, "spec", "template", "spec", "containers")


def flag_of(container: Json, flag: str) -> str:
    """Return the value of a flag `--flag=value` in a container's arguments; "" if it has none."""
    begin = f"{flag}="
    found = [each for each in list_of(container, "args") if str(each).startswith(begin)]
    return str(found[-1]).removeprefix(begin) if found else ""


def count_of(items: list[Json], noun: str, *, is_cut: bool = False) -> str:
    """Return how many there are: `1 queue`, `2 queues`, `500 queues or more`."""
    plural = "" if len(items) == 1 and not is_cut else "s"
    return f"{len(items)} {noun}{plural}" + (" or more" if is_cut else "")


def some(names: list[str], most: int = 3) -> str:
    """Return the first few names, and how many there are in addition."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
