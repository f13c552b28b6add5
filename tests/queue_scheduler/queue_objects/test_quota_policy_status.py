"""QuotaPolicy.status: for which quotas it counts, and which limits are in force."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from queue_scheduler.engine.engine import Engine
from queue_scheduler.queue_objects.quota_policy_status import (
    MAX_LISTED,
    PolicyFigures,
    QuotaPolicyStatuses,
)
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from shared_api.objects.field_schema import MESSAGE_LENGTH
from shared_api.objects.meta import Condition, Timestamp
from shared_api.objects.quota_policy import (
    QuotaInForce,
    QuotaPolicy,
    QuotaPolicyStatus,
    UserLimit,
)
from tests.properties.engine_kit import build_policy, build_quota
from tests.properties.real_quotas import new_engine

NOW = Timestamp("2026-11-01T10:00:00Z")
FOUR = UserLimit(users=("ann",), running=4)
TOO_LARGE = UserLimit(users=("ann",), max={"cpu": "1e300"})
STATUSES = QuotaPolicyStatuses()


def told(*policies: QuotaPolicy, quotas: str = "ab") -> Engine:
    engine = new_engine(QuotaSettings(mode=QuotaMode.MAX))
    for name in quotas:
        engine.on_quota(build_quota(name, cpu=1))
    for policy in policies:
        engine.on_quota_policy(policy)
    return engine


def figures(engine: Engine, name: str = "p") -> PolicyFigures:
    found = STATUSES.read(engine, name)
    assert found is not None
    return found


OLDER = build_policy("older", ["a"], FOUR, second=0)
MISSING = "no such quota exists; the policy counts once it does"
OUTDATED = "QuotaPolicy older counts for it, since it is older"


@pytest.mark.parametrize(
    ("quotas", "want"),
    [
        pytest.param(["b"], [("b", "InForce", "")], id="it counts"),
        pytest.param(["x"], [("x", "QuotaMissing", MISSING)], id="an unknown quota"),
        pytest.param(["a"], [("a", "Conflict", OUTDATED)], id="an older policy names it"),
        pytest.param(
            ["x", "b", "a"],
            [("x", "QuotaMissing", MISSING), ("b", "InForce", ""), ("a", "Conflict", OUTDATED)],
            id="each for itself",
        ),
    ],
)
def test_each_quota_has_its_reason(quotas: list[str], want: list[tuple[str, str, str]]) -> None:
    engine = told(OLDER, build_policy("p", quotas, FOUR, second=1))
    got = [(each.name, each.reason, each.message) for each in figures(engine).quotas]
    assert got == want


@pytest.mark.parametrize(
    ("policy", "reason", "message"),
    [
        pytest.param(
            build_policy("p", ["b"], FOUR, second=1),
            "Ready",
            "it counts for all of its quotas",
            id="ready",
        ),
        pytest.param(
            build_policy("p", ["x", "b"], FOUR, second=1),
            "QuotaMissing",
            f"quota x: {MISSING}",
            id="a quota is missing",
        ),
        pytest.param(
            build_policy("p", ["x", "a"], FOUR, second=1),
            "Conflict",
            f"quota x: {MISSING}; quota a: {OUTDATED}",
            id="a conflict is worse",
        ),
        pytest.param(
            build_policy("p", ["b", "a"], TOO_LARGE, second=1),
            "UnreadableLimit",
            "userLimits[0].max.cpu: '1e300' is larger than 9223372036854775807; the last valid"
            f" limits stay in force; quota a: {OUTDATED}",
            id="what cannot be read is worst",
        ),
    ],
)
def test_the_condition_has_the_worst_reason_and_all_are_told(
    policy: QuotaPolicy, reason: str, message: str
) -> None:
    got = figures(told(OLDER, policy))
    assert (got.reason, got.message) == (reason, message)


def test_the_limits_in_force_are_shown() -> None:
    engine = told(build_policy("p", ["a"], FOUR))
    assert figures(engine).user_limits == (FOUR,)
    engine.on_quota_policy(build_policy("p", ["a"], TOO_LARGE, generation=2))
    assert (figures(engine).user_limits, figures(engine).generation) == ((FOUR,), 2)


def test_a_message_stays_within_what_the_schema_allows() -> None:
    names = [f"{number:02}{'q' * 1000}" for number in range(64)]
    got = figures(told(build_policy("p", names, FOUR)))
    assert len(got.quotas) == 64
    assert got.message.endswith(f"; and {64 - MAX_LISTED} more")
    assert len(got.message) < MESSAGE_LENGTH


def test_a_policy_that_is_gone_has_no_status() -> None:
    engine = told()
    assert (STATUSES.find(engine, "p"), STATUSES.read(engine, "p")) == (None, None)
    assert STATUSES.names(engine) == []
    engine.on_quota_policy(OLDER)
    assert STATUSES.names(engine) == ["older"]


# --- what is written ----------------------------------------------------------------------------


def written(policy: QuotaPolicy, shown: PolicyFigures) -> QuotaPolicy:
    """Return a policy with the status that is written, as the server has it then."""
    patch = STATUSES.build_patch(policy, shown, NOW)
    return replace(policy, status=msgspec.convert(patch["status"], QuotaPolicyStatus))


def test_what_was_written_is_shown() -> None:
    policy = build_policy("p", ["a", "x"], FOUR, UserLimit(groups=("*",), running=0))
    engine = told(policy)
    shown = figures(engine)
    assert not STATUSES.is_shown(policy, shown)
    assert STATUSES.is_shown(written(policy, shown), shown)
    engine.on_quota_policy(written(policy, shown))
    assert figures(engine) == shown


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"generation": 2}, id="the generation"),
        pytest.param({"quotas": ()}, id="the quotas"),
        pytest.param({"quotas": (QuotaInForce(name="a", reason="Conflict"),)}, id="a reason"),
        pytest.param({"user_limits": ()}, id="the limits"),
        pytest.param({"reason": "Conflict"}, id="the condition's reason"),
        pytest.param({"message": "other words"}, id="the condition's message"),
    ],
)
def test_any_difference_is_written(changes: dict[str, object]) -> None:
    policy = build_policy("p", ["a"], FOUR)
    shown = figures(told(policy))
    assert not STATUSES.is_shown(written(policy, shown), replace(shown, **changes))


def test_a_patch_is_guarded_and_keeps_the_conditions_of_others() -> None:
    theirs = Condition(type="Reviewed", status="True", reason="R", last_transition_time=NOW)
    policy = build_policy("p", ["a"], FOUR, resource_version="7")
    policy = replace(policy, status=QuotaPolicyStatus(conditions=(theirs,)))
    patch = STATUSES.build_patch(policy, figures(told(policy)), NOW)
    assert patch["metadata"] == {"resourceVersion": "7"}
    assert [each["type"] for each in patch["status"]["conditions"]] == ["Reviewed", "Ready"]
