"""The engine of a scheduler, from its settings: at its start, and again from a dump."""

from __future__ import annotations

from fractions import Fraction

from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.settings import EngineSettings
from queue_scheduler.framework.handle import Handle
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.setup.plugin_loading import Switches, build_plugins, load_policies
from queue_scheduler.tenants.ledger import Ledger


def build_engine(settings: EngineSettings, handle: Handle) -> Engine:
    """Return an engine without facts.

    Args:
        settings: With what the program was started.
        handle: What plugins get.

    Raises:
        ConfigurationError: The plugins or policies cannot be loaded.
    """
    switches = Switches(
        oversell_rate=Fraction(settings.oversell_rate),
        checks_available_quota=settings.checks_available_quota,
        checks_namespaces=settings.checks_namespaces,
    )
    accounts = settings.configuration.kept_accounts
    engine = Engine(
        PluginRunner(build_plugins(settings.configuration, switches, handle)),
        load_policies(),
        settings.strict,
        settings.configuration.protect_seconds,
        settings.queue_namespace,
        names_are_proved=settings.names_are_proved,
        ledger=None if accounts is None else Ledger(accounts.keep_seconds),
    )
    engine.queue_state.limit_evictions(settings.configuration.evictions_per_hour)
    engine.usage.boost_per_eviction = settings.configuration.boost_per_eviction
    half_life = settings.configuration.turns_half_life
    if half_life is not None:
        engine.queue_state.take_turns_by_use(half_life)
    return engine
