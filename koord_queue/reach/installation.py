"""Asks the API server what `koord-queue check` looks at; a refusal is an answer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from koord_queue.checks.api_service import GROUP_VERSION, NAME
from koord_queue.checks.facts import (
    COMPONENT,
    PART_OF,
    AccountRight,
    Answer,
    Facts,
    Json,
    Right,
    containers_of,
    label_of,
    part,
    text_of,
)
from koord_queue.checks.koordinator import APP, CHART_PLACE, config_places
from koord_queue.checks.objects import QUOTA_GROUP_VERSION
from koord_queue.checks.programs import SCHEDULER
from koord_queue.checks.record import RESUMED
from koord_queue.checks.rights import QUOTAS, REVIEW, rights_of_program, rights_of_user
from koord_queue.errors import CommandError
from koord_queue.reach.errors import Missing, NotServed, Refused
from shared_api.crds import DEFINITIONS, GROUP, VERSION

PAGE: Final = "500"
"""Objects per page, as kubectl has it."""
MOST_UNITS: Final = 20_000
"""More units are not looked at: listing these takes about ten seconds."""

_OF_CHART: Final = (("labelSelector", f"app.kubernetes.io/part-of={PART_OF}"),)
_ADMISSION: Final = "admissionregistration.k8s.io"
_AUTHORIZATION: Final = "authorization.k8s.io"


class ServerReader(Protocol):
    """The API server, as `reach.cluster` has it."""

    answered_at: str

    def get(self, path: str, query: tuple[tuple[str, str], ...] = ()) -> bytes:
        """Return the body of a GET."""

    def send(
        self,
        method: str,
        path: str,
        body: bytes,
        content_type: str,
        query: tuple[tuple[str, str], ...] = (),
    ) -> bytes:
        """Return the body of the answer."""


class NamedServer(NamedTuple):
    """The debug API of a scheduler, wherever it runs.

    Attributes:
        url: Its URL, as the user wrote it.
        ask: Returns the answer of a route that every scheduler has.
    """

    url: str
    ask: Callable[[], bytes]


class Installation:
    """What can be known of one installation.

    Args:
        cluster: The API server.
        system_namespace: Where the programs run.
        namespace: The user's.
        server: The debug API that the user has named; None: none.
    """

    def __init__(
        self,
        cluster: ServerReader,
        system_namespace: str,
        namespace: str,
        server: NamedServer | None = None,
    ) -> None:
        self._cluster = cluster
        self._system = system_namespace
        self._namespace = namespace
        self._server = server

    def gather(
        self,
        *,
        version: str,
        now: Callable[[], datetime],
        skipped: Collection[str] = (),
    ) -> Facts:
        """Return everything that the checks look at.

        Args:
            version: The version of this command line.
            now: Returns the time of this machine.
            skipped: Checks that are not made: nothing is asked for them alone.
        """
        server = self._get("/version", Right(verb="get", resource="version"))
        facts: dict[str, Any] = {
            "version": version,
            "now": now(),
            "server_time": _read_date(self._cluster.answered_at),
            "system_namespace": self._system,
            "namespace": self._namespace,
            "server": server,
        }
        if not server.is_known:
            return Facts(**facts)
        facts["served"] = {
            each: self._get(f"/apis/{each}", Right(verb="get", resource=each))
            for each in (f"{GROUP}/{VERSION}", QUOTA_GROUP_VERSION, GROUP_VERSION)
        }
        facts |= self._programs()
        if self._server is not None:
            facts |= self._named_server(self._server, facts["deployments"])
        for check, ask in (
            ("crds", self._crds),
            ("policies", self._policies),
            ("apiservice", self._api_service),
            ("quotas", self._quotas),
            ("queues", self._queues),
            ("limits", self._quota_policies),
            ("windows", self._queue_reservations),
            ("units", self._units),
            ("record", self._resumed),
            ("pods", self._unbound_pods),
            ("koordinator", self._koordinator),
            ("upstream", self._all_deployments),
            ("alone", self._schedulers),
        ):
            if check not in skipped:
                facts |= ask()
        if not {"objects", "record"} <= set(skipped):
            facts |= self._events()
        if "rights" not in skipped:
            facts["mine"] = self._rights(facts["served"][GROUP_VERSION])
        if "accounts" not in skipped:
            facts |= self._accounts(facts["deployments"])
        return Facts(**facts)

    # --- lists and objects --------------------------------------------------------------------

    def _crds(self) -> dict[str, Any]:
        group = "apiextensions.k8s.io"
        right = Right(verb="get", group=group, resource="customresourcedefinitions")
        path = f"/apis/{group}/v1/customresourcedefinitions"
        names = [definition.plural for definition in DEFINITIONS]
        return {"crds": {name: self._get(f"{path}/{name}.{GROUP}", right) for name in names}}

    def _programs(self) -> dict[str, Any]:
        namespace = self._system
        return {
            "deployments": self._list("apps", "v1", "deployments", namespace, _OF_CHART),
            "config_maps": self._list("", "v1", "configmaps", namespace, _OF_CHART),
            "leases": self._list("coordination.k8s.io", "v1", "leases", namespace),
        }

    def _named_server(self, server: NamedServer, deployments: Answer) -> dict[str, Any]:
        """Return what a named server answers; it is asked where no scheduler is installed."""
        if any(label_of(each, COMPONENT) == SCHEDULER for each in deployments.items):
            return {"server_url": server.url}
        answer = _answer_of(server.ask, f"read {server.url}")
        return {"server_url": server.url, "debug_api": answer}

    def _all_deployments(self) -> dict[str, Any]:
        return {"all_deployments": self._list("apps", "v1", "deployments", self._system)}

    def _schedulers(self) -> dict[str, Any]:
        labels = f"app.kubernetes.io/part-of={PART_OF},{COMPONENT}={SCHEDULER}"
        query = (("labelSelector", labels),)
        return {"schedulers": self._list("apps", "v1", "deployments", "", query)}

    def _koordinator(self) -> dict[str, Any]:
        query = (("labelSelector", f"koord-app={APP}"),)
        schedulers = self._list("apps", "v1", "deployments", "", query)
        places = config_places(schedulers.items)
        return {
            "koord_schedulers": schedulers,
            "scheduler_configs": {
                f"{namespace}/{name}": self._config_map(namespace, name)
                for namespace, name in ((CHART_PLACE,) if places is None else places)
            },
        }

    def _config_map(self, namespace: str, name: str) -> Answer:
        right = Right(verb="get", resource="configmaps", namespace=namespace)
        return self._get(f"/api/v1/namespaces/{namespace}/configmaps/{name}", right)

    def _policies(self) -> dict[str, Any]:
        validating = "validatingadmissionpolicies"
        mutating, mutating_bindings = (
            self._first_served("mutatingadmissionpolicies", _OF_CHART),
            self._first_served("mutatingadmissionpolicybindings"),
        )
        return {
            "validating": self._list(_ADMISSION, "v1", validating, "", _OF_CHART),
            "validating_bindings": self._list(
                _ADMISSION, "v1", "validatingadmissionpolicybindings"
            ),
            "mutating": mutating,
            "mutating_bindings": mutating_bindings,
        }

    def _first_served(self, resource: str, query: tuple[tuple[str, str], ...] = ()) -> Answer:
        """Return the list of a kind that is served in one of two versions, or in none."""
        answer = self._list(_ADMISSION, "v1", resource, "", query)
        if answer.is_known and answer.value is None:
            return self._list(_ADMISSION, "v1beta1", resource, "", query)
        return answer

    def _api_service(self) -> dict[str, Any]:
        group = "apiregistration.k8s.io"
        right = Right(verb="get", group=group, resource="apiservices")
        return {"api_service": self._get(f"/apis/{group}/v1/apiservices/{NAME}", right)}

    def _quotas(self) -> dict[str, Any]:
        return {"quotas": self._list(QUOTAS, "v1alpha1", "elasticquotas")}

    def _queues(self) -> dict[str, Any]:
        return {"queues": self._list_or_own("queues", self._system)}

    def _quota_policies(self) -> dict[str, Any]:
        return {"quota_policies": self._list_or_own("quotapolicies", self._system)}

    def _queue_reservations(self) -> dict[str, Any]:
        return {"queue_reservations": self._list_or_own("queuereservations", self._system)}

    def _unbound_pods(self) -> dict[str, Any]:
        selected = (("fieldSelector", "spec.nodeName=,status.phase=Pending"),)
        return {"unbound_pods": self._list("", "v1", "pods", "", selected)}

    def _events(self) -> dict[str, Any]:
        warnings = (("fieldSelector", "type=Warning"),)
        return {"events": self._list("events.k8s.io", "v1", "events", "", warnings)}

    def _resumed(self) -> dict[str, Any]:
        resumed = (("fieldSelector", f"reason={RESUMED}"),)
        return {"resumed": self._list("events.k8s.io", "v1", "events", self._system, resumed)}

    def _units(self) -> dict[str, Any]:
        answer = self._list_or_own("queueunits", self._namespace)
        pages = [answer]
        count = len(answer.items)
        while pages[-1].is_cut and count < MOST_UNITS:
            token = text_of(pages[-1].value, "metadata", "continue")
            pages.append(self._list(GROUP, VERSION, "queueunits", "", (("continue", token),)))
            if not pages[-1].is_known:
                return {"units": pages[-1]}
            count += len(pages[-1].items)
        items = [item for page in pages for item in page.items]
        whole = {"items": items, "metadata": part(pages[-1].value, "metadata")}
        return {"units": Answer(whole) if answer.is_known else answer}

    def _list_or_own(self, resource: str, namespace: str) -> Answer:
        """Return a list of all namespaces, or of one where only that may be read."""
        answer = self._list(GROUP, VERSION, resource)
        return self._list(GROUP, VERSION, resource, namespace) if answer.right else answer

    def _list(
        self,
        group: str,
        version: str,
        resource: str,
        namespace: str = "",
        query: tuple[tuple[str, str], ...] = (),
    ) -> Answer:
        root = f"/apis/{group}/{version}" if group else f"/api/{version}"
        scope = f"/namespaces/{namespace}" if namespace else ""
        right = Right(verb="list", group=group, resource=resource, namespace=namespace)
        return self._get(f"{root}{scope}/{resource}", right, (*query, ("limit", PAGE)))

    def _get(self, path: str, right: Right, query: tuple[tuple[str, str], ...] = ()) -> Answer:
        # The API server answers 404 for a group that it does not know, 503 for one whose server is
        # down.
        return _answer_of(
            lambda: self._cluster.get(path, query),
            str(right),
            is_down=lambda text: path == f"/apis/{GROUP_VERSION}" and "404" not in text,
        )

    # --- rights -------------------------------------------------------------------------------

    def _rights(self, visibility: Answer) -> dict[Right, Answer]:
        published = visibility.is_known and visibility.value is not None
        asked = rights_of_user(self._namespace, self._system, is_published=published)
        return {each.right: self._may(each.right) for each in asked}

    def _accounts(self, deployments: Answer) -> dict[str, Any]:
        may_review = self._may(REVIEW)
        found: tuple[AccountRight, ...] = ()
        if part(may_review.value, "allowed") is True:
            found = tuple(self._of_accounts(deployments))
        return {"may_review": may_review, "accounts": found}

    def _of_accounts(self, deployments: Answer) -> Iterator[AccountRight]:
        for deployment in deployments.items:
            pod = part(deployment, "spec", "template", "spec")
            account = text_of(pod, "serviceAccountName") or "default"
            containers = containers_of(deployment)
            if not containers:
                continue
            component = label_of(deployment, COMPONENT)
            for needed in rights_of_program(component, containers[0], self._system):
                answer = self._may(needed.right, account)
                yield AccountRight(account, needed.right, needed.why, answer)

    def _may(self, right: Right, account: str = "") -> Answer:
        """Return the status of a review; `account`: of this service account, "": of the user."""
        kind = "SubjectAccessReview" if account else "SelfSubjectAccessReview"
        spec: dict[str, Any] = {"resourceAttributes": _attributes(right)}
        if account:
            spec["user"] = f"system:serviceaccount:{self._system}:{account}"
            groups = ("system:serviceaccounts", f"system:serviceaccounts:{self._system}")
            spec["groups"] = [*groups, "system:authenticated"]
        body = {"apiVersion": f"{_AUTHORIZATION}/v1", "kind": kind, "spec": spec}
        path = f"/apis/{_AUTHORIZATION}/v1/{kind.lower()}s"
        try:
            answer = self._cluster.send("POST", path, msgspec.json.encode(body), "application/json")
            decoded: Json = msgspec.json.decode(answer)
            return Answer(part(decoded, "status"))
        except Refused:
            return Answer(right=f"create {kind.lower()}s.{_AUTHORIZATION}")
        except (CommandError, msgspec.DecodeError) as error:
            return Answer(failure=str(error))


def _answer_of(
    ask: Callable[[], bytes], right: str, *, is_down: Callable[[str], bool] = bool
) -> Answer:
    """Return what is answered, or why nothing is.

    Args:
        ask: Returns JSON.
        right: The right that a caller lacks who is refused.
        is_down: Returns whether a message that nothing is served means a failure.
    """
    try:
        return Answer(msgspec.json.decode(ask()))
    except Refused:
        return Answer(right=right)
    except Missing:
        return Answer()
    except NotServed as error:
        return Answer(failure=error.message) if is_down(error.message) else Answer()
    except (CommandError, msgspec.DecodeError) as error:
        return Answer(failure=str(error))


def _read_date(header: str) -> datetime | None:
    """Return the time of a header `Date`, in UTC; None where it is none."""
    try:
        return parsedate_to_datetime(header).astimezone(UTC)
    except ValueError:
        return None


def _attributes(right: Right) -> dict[str, str]:
    named = {
        "verb": right.verb,
        "group": right.group,
        "resource": right.resource,
        "subresource": right.subresource,
        "namespace": right.namespace,
        "name": right.name,
    }
    return {key: value for key, value in named.items() if value}
