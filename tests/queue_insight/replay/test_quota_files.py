"""Quotas of a file with their policies."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from queue_insight.replay.jobs import TraceError
from queue_insight.replay.quota_files import read_quotas
from queue_insight.replay.replayed_world import World, build_engine
from tests.queue_insight.replay.replay_kit import QUOTAS

Json = dict[str, Any]


def policy(*limits: Json, namespace: str = "anywhere") -> Json:
    spec = {"quotas": ["red"], "userLimits": list(limits)}
    return {
        "kind": "QuotaPolicy",
        "metadata": {"name": "p", "namespace": namespace},
        "spec": spec,
    }


def written(folder: Path, *documents: Json) -> Path:
    path = folder / "quotas.yaml"
    path.write_text(yaml.safe_dump_all([*QUOTAS, *documents]), encoding="utf-8")
    return path


@pytest.mark.parametrize("namespace", ["anywhere", ""])
def test_policies_of_the_file_count(tmp_path: Path, namespace: str) -> None:
    one = policy({"users": ["ann"], "running": 1}, namespace=namespace)
    engine = build_engine(World(objects=read_quotas(written(tmp_path, one))))
    rule = engine.policies.limits_of("red").for_user("ann")
    assert rule is not None
    assert rule.running == 1


@pytest.mark.parametrize(
    ("limit", "want"),
    [
        pytest.param({"users": ["ann"]}, "userLimits[0]: set at least one of", id="no limit"),
        pytest.param({"users": "ann", "running": 1}, "Expected `array`", id="no list"),
    ],
)
def test_a_limit_that_cannot_be_read_is_an_error(tmp_path: Path, limit: Json, want: str) -> None:
    with pytest.raises(TraceError) as caught:
        read_quotas(written(tmp_path, policy(limit)))
    assert f"document {len(QUOTAS) + 1}" in str(caught.value)
    assert want in str(caught.value)


def budgeted(**budget: Any) -> Json:
    found = policy()
    found["spec"]["budgets"] = [{"resource": "cpu", "hours": 5, "period": "Month", **budget}]
    return found


def test_budgets_of_the_file_count_from_when_the_trace_began(tmp_path: Path) -> None:
    world = World(objects=read_quotas(written(tmp_path, budgeted(timeZone="Europe/Berlin"))))
    engine = build_engine(world, datetime(2026, 3, 15, tzinfo=UTC))
    ((key, account),) = engine.usage.budgets.accounts
    assert (key.quota, key.period) == ("red", "Month")
    assert account.end is not None
    assert account.end - account.start == 743 * 3600


def test_a_budget_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="there is no time zone 'Mars'"):
        read_quotas(written(tmp_path, budgeted(timeZone="Mars")))


def sharing(half_life: str) -> Json:
    found = policy()
    found["spec"]["queue"] = {"fairShare": {"halfLife": half_life}}
    return found


def test_the_queue_of_a_quota_has_what_a_policy_of_the_file_states(tmp_path: Path) -> None:
    engine = build_engine(World(objects=read_quotas(written(tmp_path, sharing("1h")))))
    queue = engine.queues.queue("red")
    assert queue is not None
    assert queue.spec.fair_share is not None
    assert queue.spec.fair_share.half_life == "1h"


def test_a_fair_share_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"queue\.fairShare\.halfLife"):
        read_quotas(written(tmp_path, sharing("0s")))
