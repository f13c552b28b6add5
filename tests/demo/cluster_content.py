"""Creates the demo's kinds, namespaces, quotas, and jobs in a cluster, and removes them.

Only objects that it created are removed. A kind that already existed always stays.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import yaml

from shared_api.client.errors import ApiFailure
from shared_api.client.resource_types import (
    CUSTOM_RESOURCE_DEFINITIONS,
    ELASTIC_QUOTAS,
    JOBS,
    NAMESPACES,
    PRIORITY_CLASSES,
    QUEUE_UNITS,
    QUEUES,
    QUOTA_POLICIES,
)
from shared_api.process.clock import Clock
from tests.demo.clusters import OUR_CRDS, QUOTA_CRD, DemoFailed
from tests.demo.json_api import Json, JsonApi, Kind
from tests.demo.load_plan import (
    LoadPlan,
    PlannedJob,
    build_namespace,
    build_policies,
    build_priority_class,
    build_quotas,
)

SERVED_SECONDS: Final = 120.0
"""Timeout for a new kind to be served."""
GONE_SECONDS: Final = 120.0
"""Timeout for a namespace to be gone; its pods have a grace period."""
POLL_SECONDS: Final = 0.2

Say = Callable[[str], None]


class _Made(NamedTuple):
    kind: Kind
    namespace: str
    name: str


class ClusterContent:
    """The objects of one run. `remove` removes what was created so far, at any time."""

    def __init__(self, api: JsonApi, clock: Clock, *, queue_namespace: str) -> None:
        self._api = api
        self._clock = clock
        self._queue_namespace = queue_namespace
        self._made: list[_Made] = []

    def install_kinds(self) -> None:
        """Install the CRDs that are missing, and wait until they are served.

        Raises:
            DemoFailed: They are not served in time.
        """
        for path in (*sorted(OUR_CRDS.glob("*.yaml")), QUOTA_CRD):
            for body in _documents(path):
                self._make(CUSTOM_RESOURCE_DEFINITIONS, body, may_exist=True)
        for kind in (QUEUES, QUEUE_UNITS, QUOTA_POLICIES, ELASTIC_QUOTAS):
            self._wait(
                partial(self._api.is_served, kind),
                SERVED_SECONDS,
                f"{kind.plural} are not served",
            )

    def make_tenants(self, plan: LoadPlan) -> None:
        """Create the namespaces, the priority class, and the quotas with their policies.

        Raises:
            DemoFailed: An object with such a name exists that the demo did not create.
        """
        for name in (self._queue_namespace, *plan.namespaces):
            self._make(NAMESPACES, build_namespace(name))
        self._make(PRIORITY_CLASSES, build_priority_class())
        for quota in build_quotas(plan, self._queue_namespace):
            self._make(ELASTIC_QUOTAS, quota)
        for policy in build_policies(plan, self._queue_namespace):
            self._make(QUOTA_POLICIES, policy)

    def remove(self, say: Say) -> None:
        """Remove all created objects, newest first, and wait until they are gone.

        An object that cannot be removed is reported, and the others are still removed.
        """
        newest_first, self._made = self._made[::-1], []
        kinds = [made for made in newest_first if made.kind is CUSTOM_RESOURCE_DEFINITIONS]
        content = [made for made in newest_first if made not in kinds]
        namespaces = [made for made in content if made.kind is NAMESPACES]
        say(f"removing {len(content)} objects with all that is in them")
        for made in content:
            self._try(made, self._delete, say)
        for made in namespaces:
            self._try(made, self._wait_until_gone, say)
        for made in kinds:  # last: a kind is removed with all its objects, also those of others
            say(f"removing the kind {made.name}, which was not there before")
            self._try(made, self._delete, say)
        for made in kinds:  # the server deletes their last objects first
            self._try(made, self._wait_until_gone, say)

    def _try(self, made: _Made, act: Callable[[_Made], None], say: Say) -> None:
        try:
            act(made)
        except (ApiFailure, DemoFailed) as error:
            by_hand = f"kubectl delete {made.kind.plural} {made.name}"
            by_hand += f" --namespace {made.namespace}" if made.namespace else ""
            say(f"  {made.name} is still there ({error}); try: {by_hand}")

    def _delete(self, made: _Made) -> None:
        self._api.try_delete(made.kind, made.namespace, made.name)

    def _wait_until_gone(self, made: _Made) -> None:
        self._wait(partial(self._is_gone, made.kind, made.name), GONE_SECONDS, "it is not gone")

    def _is_gone(self, kind: Kind, name: str) -> bool:
        return all(item["metadata"]["name"] != name for item in self._api.list_all(kind))

    def _make(self, kind: Kind, body: Json, *, may_exist: bool = False) -> None:
        meta = body["metadata"]
        if self._api.try_create(kind, body):
            self._made.append(_Made(kind, meta.get("namespace", ""), meta["name"]))
        elif not may_exist:
            raise DemoFailed(f"{kind.kind} {meta['name']} exists already; the demo leaves it alone")

    def _wait(self, is_done: Callable[[], bool], seconds: float, otherwise: str) -> None:
        deadline = self._clock.monotonic() + seconds
        while not is_done():
            if self._clock.monotonic() > deadline:
                raise DemoFailed(f"{otherwise} after {seconds:.0f} s")
            self._clock.sleep(POLL_SECONDS)


def _documents(path: Path) -> Iterable[Json]:
    return (body for body in yaml.safe_load_all(path.read_text(encoding="utf-8")) if body)


class JobSubmitter:
    """Submits the jobs of a plan, each at its time. For one thread."""

    def __init__(self, api: JsonApi, plan: LoadPlan, started_at: float) -> None:
        self._api = api
        self._started_at = started_at
        self._left: deque[PlannedJob] = deque(sorted(plan.jobs, key=lambda job: job.at_seconds))

    @property
    def is_done(self) -> bool:
        """Whether all jobs are submitted."""
        return not self._left

    def submit_due(self, now: float) -> None:
        """Create the jobs that are due.

        Raises:
            DemoFailed: The API server refuses one.
        """
        while self._left and self._left[0].at_seconds <= now - self._started_at:
            try:
                self._api.create(JOBS, self._left[0].body)
            except ApiFailure as error:
                raise DemoFailed(f"submitting {self._left[0].name}: {error}") from error
            self._left.popleft()
