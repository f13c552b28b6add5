"""QuotaPolicies in a dump: what was in force is in force again, with names or without."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from queue_insight.dump.anonymize import anonymize
from queue_insight.dump.codec import decode_dump, encode_dump
from queue_insight.dump.contents import Dump
from queue_insight.dump.restore import restore_engine
from queue_insight.dump.take import take_dump
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.settings import EngineSettings
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from shared_api.objects.queue import FairShare, FairWeight
from shared_api.objects.quota_policy import StatedQueue, UserLimit
from tests.properties.engine_kit import build_policy
from tests.properties.real_quotas import new_engine
from tests.properties.test_dumps import AT

LIMITS = (
    UserLimit(users=("hunter2", "namespace:hunter2"), max={"cpu": "1500m"}, running=4),
    UserLimit(groups=("hunter2",), pending=0),
    UserLimit(users=("*",), running=1),
)
TOO_LARGE = UserLimit(users=("hunter2",), max={"cpu": "1e300"})


def engine_without_facts() -> Engine:
    return new_engine(QuotaSettings(mode=QuotaMode.MAX))


def told() -> Engine:
    engine = engine_without_facts()
    engine.on_quota_policies_served(are_served=True)
    engine.on_quota_policy(build_policy("old", ["a"], *LIMITS, second=1))
    engine.on_quota_policy(build_policy("new", ["a", "root/hunter2"], LIMITS[2], second=2))
    engine.on_quota_policy(build_policy("bad", ["c"], *LIMITS, second=3))
    noted = {"owner": "hunter2"}
    engine.on_quota_policy(build_policy("bad", ["c"], TOO_LARGE, second=3, annotations=noted))
    return engine


def taken(engine: Engine) -> Dump:
    return take_dump(engine.fork(), AT, EngineSettings(), "1", leader=True)


def test_an_engine_of_a_dump_has_the_same_in_force() -> None:
    engine = told()
    other = engine_without_facts()
    restore_engine(other, decode_dump(encode_dump(taken(engine)), "1"))
    assert other.policies.are_served is True
    for quota in ("a", "root/hunter2", "c"):
        assert other.policies.limits_of(quota).rules == engine.policies.limits_of(quota).rules
        assert other.policies.limits_of(quota).rules
    assert taken(other).policies == taken(engine).policies


@pytest.mark.parametrize("are_served", [None, False])
def test_whether_the_kind_is_served_is_known_again(are_served: bool | None) -> None:
    engine = engine_without_facts()
    if are_served is not None:
        engine.on_quota_policies_served(are_served=are_served)
    other = engine_without_facts()
    restore_engine(other, taken(engine))
    assert other.policies.are_served is are_served


def test_users_and_groups_are_renamed_and_keep_their_limits() -> None:
    data = anonymize(taken(told()))
    assert "hunter2" not in encode_dump(data).decode()
    engine = engine_without_facts()
    restore_engine(engine, data)
    limits = engine.policies.limits_of(data.policies.objects[0].spec.quotas[0])
    user, namespace = data.policies.objects[0].spec.user_limits[0].users
    assert namespace == f"namespace:{user}"
    for name in (user, namespace):
        rule = limits.for_user(name)
        assert rule is not None
        assert (rule.running, rule.max) == (4, {"cpu": 1500})
    others = limits.for_user("somebody else")
    assert others is not None
    assert others.running == 1


def test_what_is_stated_for_queues_is_kept_and_its_names_are_renamed() -> None:
    weights = (FairWeight(users=("hunter2",), weight=3), FairWeight(groups=("hunter2",)))
    queue = StatedQueue(FairShare(levels=("group", "user"), weights=weights, half_life="1h"))
    engine, policy = engine_without_facts(), build_policy("p", ["a"])
    engine.on_quota_policy(replace(policy, spec=replace(policy.spec, queue=queue)))
    data = anonymize(taken(engine))
    assert "hunter2" not in encode_dump(data).decode()
    other = engine_without_facts()
    restore_engine(other, data)
    (stated,) = other.policies
    assert stated.fair_share is not None
    assert (stated.fair_share.levels, stated.fair_share.half_life) == (("group", "user"), "1h")
    assert [each.weight for each in stated.fair_share.weights] == [3, 1]
