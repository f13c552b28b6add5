"""What each port can be asked, and by whom: the candidates for the dearest answers.

Each kind of user asks all of a port's questions; of one without a right the refusals count.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

from shared_api.testing.object_builders import job_body
from tests.charts.render import as_manifest
from tests.flood.http_connection import NEW_TOKEN, PAST_MOMENT, Question

NAMESPACE: Final = "team-a"
"""Of those that flood, and of the units that wait."""
CROWD: Final = "crowd"
"""The quota of these units, and their queue."""
VISIBILITY: Final = "/apis/visibility.koord-queue/v1alpha1"
LISTED: Final = 1000
EDITS: Final = 100
TRIED: Final = 50
PROBES: Final = ("/livez", "/readyz", "/readyz?verbose", "/healthz?verbose")
JSON: Final = {"Content-Type": "application/json"}
LOGIN: Final = {**JSON, "Cookie": ""}
"""With a cookie it would end that session."""
YAML: Final = {"Content-Type": "application/yaml"}
TABLE: Final = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}


class User(StrEnum):
    """A kind of user."""

    ADMIN = "admin"
    EDIT = "edit"
    VIEW = "view"
    NO_RIGHTS = "no rights"
    STRANGER = "stranger"


class Port(StrEnum):
    """A port of the programs."""

    SCHEDULER_DEBUG = "scheduler debug"
    SCHEDULER_METRICS = "scheduler metrics"
    SCHEDULER_HEALTH = "scheduler health"
    CONTROLLERS_DEBUG = "controllers debug"
    CONTROLLERS_METRICS = "controllers metrics"
    CONTROLLERS_HEALTH = "controllers health"
    PAGE = "page"
    AGGREGATED = "aggregated API"
    INSIGHT_API = "insight's own API port"
    INSIGHT_METRICS = "insight metrics"
    INSIGHT_HEALTH = "insight health"


ANYBODY: Final = (User.STRANGER,)
WITH_TOKENS: Final = (User.ADMIN, User.NO_RIGHTS, User.STRANGER)
USERS: Final[Mapping[Port, tuple[User, ...]]] = {
    **dict.fromkeys(Port, tuple(User)),
    # The roles `edit` and `view` have no right to metrics.
    **dict.fromkeys((Port.SCHEDULER_METRICS, Port.CONTROLLERS_METRICS), WITH_TOKENS),
    # They ask nobody who it is.
    **dict.fromkeys((Port.SCHEDULER_HEALTH, Port.CONTROLLERS_HEALTH), ANYBODY),
    **dict.fromkeys((Port.INSIGHT_HEALTH, Port.INSIGHT_METRICS), ANYBODY),
}
"""The kinds of users that differ at each port."""


class Asked(NamedTuple):
    """What questions are about, and as whom they are asked.

    Attributes:
        unit: The name of the last unit that waits.
        job: The name of a job.
        credentials: Headers.
        token: What the page is logged in to with; of a stranger one that nobody has given.
    """

    unit: str
    job: str
    credentials: Mapping[str, str]
    token: str = NEW_TOKEN


def questions(port: Port, asked: Asked) -> list[Question]:
    """Return what a port can be asked."""
    return [
        each._replace(headers={**asked.credentials, **each.headers})
        for each in _QUESTIONS[port](asked)
    ]


def _get(target: str, name: str = "", headers: Mapping[str, str] | None = None) -> Question:
    return Question(name or target, target, headers or {})


def _post(
    target: str, body: str, headers: Mapping[str, str], name: str = "", method: str = "POST"
) -> Question:
    return Question(name or f"{method} {target}", target, headers, method, body)


def _scheduler_debug(asked: Asked) -> Iterator[Question]:
    unit, queue = f"/debug/queueunits/{NAMESPACE}/{asked.unit}", f"/debug/queues/{CROWD}"
    for target in (
        "/",
        "/openapi.json",
        "/debug/dump",
        "/debug/quotas",
        f"/debug/accounts?limit={LISTED}",
        f"/debug/user-limits?limit={LISTED}",
        f"/debug/reservations?limit={LISTED}",
        f"/debug/budgets/forecast?limit={LISTED}",
        f"/debug/queues?limit={LISTED}",
        f"{queue}?limit={LISTED}",
        f"{queue}/forecast?limit={LISTED}",
        unit,
        f"{unit}/explain",
        f"{unit}/explain?changes=true",
        f"{unit}/forecast",
        "/debug/insight",
        "/debug/log?limit=500",
        f"/debug/report?by=quota,user&limit={LISTED}",
        "/apis/v1/queue",
        "/apis/v1/userquota",
    ):
        yield _get(target)
    yield _get(f"{queue}?limit={LISTED}&at={PAST_MOMENT}", f"{queue}?at=")
    yield _post("/debug/what-if", _what_if(), JSON)
    yield _post("/debug/what-if", _what_if(3600), JSON, "POST /debug/what-if, an hour ahead")
    yield _post(f"/debug/try?namespace={NAMESPACE}&changes=true", _jobs(), YAML)


def _controllers_debug(asked: Asked) -> Iterator[Question]:
    for target in (
        "/",
        "/openapi.json",
        f"/debug/jobs/{NAMESPACE}/Job/{asked.job}",
        f"/debug/jobs/{NAMESPACE}/Job/missing",
        f"/debug/jobs/{NAMESPACE}/Unknown/missing",
    ):
        yield _get(target)


def _metrics(_: Asked) -> Iterator[Question]:
    yield _get("/metrics")
    yield _get("/metrics", "/metrics, compressed", {"Accept-Encoding": "gzip"})
    openmetrics = {"Accept": "application/openmetrics-text; version=1.0.0"}
    yield _get("/metrics", "/metrics, OpenMetrics", openmetrics)


def _health(_: Asked) -> Iterator[Question]:
    return map(_get, PROBES)


def _page(asked: Asked) -> Iterator[Question]:
    queue, unit = f"/page/queues/{CROWD}", f"/page/units/{NAMESPACE}/{asked.unit}"
    for target in (
        "/",
        "/page/session",
        "/page/overview",
        f"{queue}?limit={LISTED}",
        f"{queue}?limit={LISTED}&sort=created&filter=a",
        f"{queue}.csv",
        f"/page/unqueued?limit={LISTED}",
        "/page/names",
        f"/page/jobs?limit={LISTED}&sort=user",
        "/page/jobs.csv",
        "/page/over-time?range=7d",
        f"/page/over-time?range=7d&queue={CROWD}",
        "/page/report?range=30d",
        "/page/report.csv?range=30d&by=quota",
        unit,
        f"{unit}/changes",
        f"{unit}/pods",
        f"{unit}/events",
        f"{unit}/manifests/unit",
        f"/page/manifests/quota/{CROWD}",
        f"/page/quotas/{CROWD}",
    ):
        yield _get(target)
    for target in (
        "/page/overview?",
        f"{queue}?limit={LISTED}&",
        f"/page/quotas/{CROWD}?",
        "/page/jobs?",
    ):
        yield _get(f"{target}at={PAST_MOMENT}", f"{target}at=")
    yield _post("/page/what-if", _what_if(), JSON)
    yield _post("/page/what-if", _what_if(3600), JSON, "POST /page/what-if, an hour ahead")
    log_in = json.dumps({"token": asked.token})
    yield _post("/page/session", log_in, LOGIN)


def _visibility(asked: Asked) -> Iterator[Question]:
    here = f"{VISIBILITY}/namespaces/{NAMESPACE}"
    every = f"{VISIBILITY}/pendingunits?limit={LISTED}"
    own, line = (
        f"{where}/pendingunits?limit={LISTED}" for where in (here, f"{VISIBILITY}/queues/{CROWD}")
    )
    unit = f"{here}/pendingunits/{asked.unit}"
    for target in (
        VISIBILITY,
        every,
        own,
        line,
        f"{unit}/explain?changes=true",
        f"{unit}/forecast",
    ):
        yield _get(target)
    yield _get("/openapi/v3/apis/visibility.koord-queue/v1alpha1")
    yield _get(every, f"{every}, as a table", TABLE)
    yield _get(own, f"{own}, as a table", TABLE)
    yield _post(f"{here}/tries?changes=true", _jobs(), YAML)


_QUESTIONS: Final[Mapping[Port, Callable[[Asked], Iterator[Question]]]] = {
    Port.SCHEDULER_DEBUG: _scheduler_debug,
    Port.CONTROLLERS_DEBUG: _controllers_debug,
    Port.PAGE: _page,
    Port.AGGREGATED: _visibility,
    Port.INSIGHT_API: _visibility,
    **dict.fromkeys(
        (Port.SCHEDULER_METRICS, Port.CONTROLLERS_METRICS, Port.INSIGHT_METRICS), _metrics
    ),
    **dict.fromkeys((Port.SCHEDULER_HEALTH, Port.CONTROLLERS_HEALTH, Port.INSIGHT_HEALTH), _health),
}


def _what_if(horizon_seconds: int = 0) -> str:
    """Return a question of as many edits as one may have, each of which frees places."""
    edits = [
        {"kind": "ElasticQuota", "name": CROWD, "patch": {"spec": {"max": {"cpu": str(cpu)}}}}
        for cpu in range(2, EDITS + 2)
    ]
    question: dict[str, Any] = {"edits": edits}
    if horizon_seconds:
        question |= {"horizonSeconds": horizon_seconds}
    return json.dumps(question)


def _jobs() -> str:
    """Return a manifest of many jobs."""
    return as_manifest(
        job_body(f"tried-{number}", namespace=NAMESPACE, quota=CROWD, requests={"cpu": 2})
        for number in range(TRIED)
    )
