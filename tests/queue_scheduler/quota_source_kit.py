"""An engine with plugins whose quotas are other objects than ElasticQuotas."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from msgspec.structs import replace

from queue_scheduler.decision import Dequeue, Reason, Refusal, Rest
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.unit_questions import refusal_of_unit
from queue_scheduler.framework.extension_points import Plugin, QuotaSource
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo, UnitDemand
from queue_scheduler.plugins.elastic_quota_tree import ElasticQuotaTreePlugin
from queue_scheduler.queueing.queue_policies import BUILT_IN_POLICIES
from shared_api.objects.elastic_quota_tree import ElasticQuotaTree
from shared_api.objects.meta import Uid
from shared_api.objects.queue_unit import QueueUnit
from shared_api.testing.object_builders import elastic_quota_tree, tree_node
from tests.properties.engine_kit import admitted, build_info, build_queue, build_unit, changed

TREE_PREFIX = "quota.scheduling.alibabacloud.com/"
TREE_LABEL = TREE_PREFIX + "name"
FULLNAME = "koord-queue/quota-fullname"
MAX_JOBS = "koord-queue/max-jobs"


def tree(*children: Any, labels: dict[str, str] | None = None, **root: Any) -> ElasticQuotaTree:
    """Return an ElasticQuotaTree whose root has these children."""
    metadata = {"uid": "tree-1", "labels": labels or {}}
    return elastic_quota_tree(tree_node("top", *children, **root), metadata=metadata)


def cpus(maximum: int, minimum: int = 0, jobs: int | None = None) -> dict[str, Any]:
    """Return the limits of a node."""
    limits: dict[str, Any] = {"cpu": maximum}
    if jobs is not None:
        limits[MAX_JOBS] = jobs
    return {"max": limits, "min": {"cpu": minimum} if minimum else {}}


def info(quota: str, cpu: int, name: str = "new", **more: Any) -> QueueUnitInfo:
    """Return a unit that is charged to a quota, in milli CPU."""
    demand = UnitDemand((), {"cpu": cpu})
    return build_info(build_unit(name), quota, uid=Uid(name), demand=demand, **more)


class SourceEngine:
    """Facts in, names of started units out; units are in namespace `ns` unless given otherwise."""

    def __init__(self, *plugins: Plugin) -> None:
        self.engine = Engine(PluginRunner(plugins), BUILT_IN_POLICIES)
        self._units: dict[str, QueueUnit] = {}
        self._version = 1

    def apply(self, source: QuotaSource) -> None:
        """Deliver an object that quotas come from, as the event handlers do."""
        self.engine.on_quota(source)
        self.engine.validate()

    def apply_gone(self, source: QuotaSource) -> None:
        """Report that one was deleted."""
        self.engine.on_quota_gone(source)
        self.engine.validate()

    def add_queues(self, *names: str) -> None:
        """Add queues without annotations."""
        for name in names:
            self.engine.on_queue(build_queue(name))

    def add(self, name: str, node: str = "", **more: Any) -> None:
        """Add a unit that names a node of a tree, or none."""
        labels = {**({TREE_LABEL: node} if node else {}), **more.pop("labels", {})}
        self._apply(build_unit(name, labels=labels, version=self._next(), **more))

    def write(self, name: str) -> None:
        """Have the decision to start a unit written."""
        self._apply(admitted(self._units[name], self._next()))

    def finish(self, name: str) -> None:
        """End a unit."""
        self._apply(changed(self._units[name], self._next(), "Succeed", admissions=()))

    def change(self, name: str, **status: Any) -> None:
        """Change the status of a unit."""
        self._apply(changed(self._units[name], self._next(), **status))

    def relabel(self, name: str, **labels: str) -> None:
        """Edit labels of trees on a unit."""
        unit = self._units[name]
        edited = {**unit.metadata.labels, **{TREE_PREFIX + key: v for key, v in labels.items()}}
        version = str(self._next())
        meta = replace(unit.metadata, labels=edited, resource_version=version)
        self._apply(replace(unit, metadata=meta))

    def delete(self, name: str) -> None:
        """Delete a unit."""
        self.engine.on_queue_unit_gone(self._units.pop(name))
        self.engine.validate()

    def _next(self) -> int:
        self._version += 1
        return self._version

    def _apply(self, unit: QueueUnit) -> None:
        self._units[unit.metadata.name] = unit
        self.engine.on_queue_unit(unit)
        self.engine.validate()

    def restarted(self, *plugins: Plugin) -> SourceEngine:
        """Return another engine with these plugins that knows the same queues and units."""
        twin = SourceEngine(*plugins)
        for queue in self.engine.queues:
            twin.engine.on_queue(queue.rules.api_object)
        for unit in self._units.values():
            twin._apply(unit)
        return twin

    def start(self, *queues: str) -> list[str]:
        """Decide until these queues rest; return the names of the started units."""
        started: list[str] = []
        asked = dict.fromkeys(queues)
        while asked:
            name = next(iter(asked))
            decision = self.engine.decide_next(name, 0.0)
            if isinstance(decision, Dequeue):
                started.append(decision.unit.partition("/")[2])
            elif isinstance(decision, Rest):
                del asked[name]
            asked.update({each: None for each in decision.wake if each in queues})
        self.engine.validate()
        return started

    def refusal(self, name: str) -> Refusal:
        """Return why a unit waits."""
        refusal = refusal_of_unit(self.engine, self._units[name].metadata.key)
        assert refusal is not None, f"{name} does not wait"
        return refusal

    def reason(self, name: str) -> Reason:
        """Return the reason why a unit waits."""
        return self.refusal(name).reason

    def place(self, name: str) -> tuple[str, str]:
        """Return (quota, queue) of a unit."""
        record = self.engine.record(self._units[name].metadata.key)
        assert record is not None
        assert record.info is not None, f"{name} is nowhere: {record.hold}"
        return record.info.quota, record.info.queue

    def charged(self, name: str) -> str:
        """Return the quota that a unit is charged to."""
        charge = self.engine.usage.charge_of(self._units[name].metadata.uid)
        assert charge is not None, f"{name} is not booked"
        return charge.quota


def tree_plugin(**arguments: Any) -> ElasticQuotaTreePlugin:
    """Return the plugin of trees; `rate` oversells."""
    return ElasticQuotaTreePlugin(arguments.pop("rate", Fraction(1)), **arguments)


def tree_world(of: ElasticQuotaTree, *queues: str, **arguments: Any) -> SourceEngine:
    """Return an engine with that plugin, a tree and these queues."""
    room = SourceEngine(tree_plugin(**arguments))
    room.apply(of)
    room.add_queues(*queues)
    return room
