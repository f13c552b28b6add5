"""An engine with the real quota plugin, and the plugin's answers to judge the engine."""

from __future__ import annotations

from collections.abc import Mapping

from queue_scheduler.decision import Refusal
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.extension_points import Waiter
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo
from queue_scheduler.plugins.elastic_quota import ElasticQuotaPlugin
from queue_scheduler.plugins.priority import Priority
from queue_scheduler.queueing.queue_policies import BUILT_IN_POLICIES
from queue_scheduler.queueing.strict_mode import NOT_STRICT, StrictMode
from queue_scheduler.quota.quota_settings import QuotaSettings
from shared_api.objects.meta import Uid
from shared_api.objects.queue_unit import QueueUnit
from shared_api.resource_list import Amounts


def new_engine(settings: QuotaSettings, strict: StrictMode = NOT_STRICT) -> Engine:
    """Return an engine that knows no objects yet."""
    plugins = PluginRunner([ElasticQuotaPlugin(settings), Priority()])
    return Engine(plugins, BUILT_IN_POLICIES, strict)


class RealQuotas:
    """The plugin of an engine, as `engine_checks` uses it."""

    def __init__(self, engine: Engine) -> None:
        plugins = engine.plugins.plugins
        self.engine = engine
        self.plugin = next(each for each in plugins if isinstance(each, ElasticQuotaPlugin))

    @property
    def protected(self) -> Mapping[str, str]:
        return {}

    @property
    def foreign(self) -> Mapping[str, object]:
        return {}

    def check(self, info: QueueUnitInfo) -> Refusal | None:
        return self.plugin.check(info)

    def chain(self, quota: str) -> tuple[str, ...]:
        return self.plugin.quotas.chain(quota)

    def limit(self, quota: str) -> Amounts:
        """Return the max: in no mode does a decision take a level above it."""
        view = self.plugin.quotas.view(quota)
        return view.max if view is not None else {}

    def booked(self) -> Mapping[Uid, tuple[str, Amounts]]:
        found = {uid: self.plugin.quotas.charge_of(uid) for uid in self.engine.usage}
        return {uid: (b[0], dict(b[1].amounts)) for uid, b in found.items() if b is not None}

    def waiters(self) -> set[Waiter]:
        return set()

    def quota_names(self, unit: QueueUnit) -> tuple[str, ...]:
        return self.plugin.quota_names(unit)

    def validate(self) -> None:
        self.plugin.quotas.validate()
