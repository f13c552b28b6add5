"""Who used how much, as each visitor may see it."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from msgspec.structs import replace

from queue_insight.page.report import MOST_BARS
from queue_insight.record.samples import DAY, HOUR
from queue_scheduler.engine.engine import Engine
from queue_scheduler.tenants.ledger import Ledger
from shared_api.objects.quota_policy import Budget
from tests.properties.engine_kit import build_policy
from tests.queue_insight.page.page_kit import ROOT, TENANT, LoginWorld, browser
from tests.queue_insight.page.report_kit import TENANTS, PlayedUse
from tests.queue_scheduler.shell_kit import ShellKit

PATH = "/page/report"
Json = dict[str, Any]


@pytest.fixture
def world(kit: ShellKit) -> LoginWorld:
    """The tenant may read the namespace `default`."""
    kit.shared._engine.usage.ledger = Ledger()  # noqa: SLF001 - before its first call
    world = LoginWorld(kit)
    world.use = PlayedUse()
    return world


def ask(world: LoginWorld, token: str = ROOT, query: str = "") -> Json:
    with browser(world, token) as client:
        got = client.get(f"{PATH}?{query}")
        assert got.status_code == 200, got.text
        answer: Json = got.json()
        return answer


@pytest.mark.parametrize(
    ("range_", "steps", "seconds"), [("1d", 24, HOUR), ("7d", 7, DAY), ("30d", 30, DAY)]
)
def test_bars_are_of_whole_steps_until_now(
    world: LoginWorld, range_: str, steps: int, seconds: int
) -> None:
    got = ask(world, query=f"range={range_}")
    now = world.clock.now().timestamp()
    assert (len(got["times"]), got["stepSeconds"]) == (steps, seconds)
    assert got["times"][-1] <= now < got["times"][-1] + seconds
    assert [each["name"] for each in got["bars"]] == ["ann", "bob", "eve", ""]
    assert got["resource"] == "nvidia.com/gpu"
    assert got["resources"] == ["nvidia.com/gpu", "cpu", "memory"]
    for bar, row in zip(got["bars"][:-1], got["items"], strict=True):
        assert sum(bar["values"]) == pytest.approx(float(row["used"]["nvidia.com/gpu"]), abs=0.1)
        assert min(bar["values"][:-1]) > 0, "the present one has just begun"
    assert got["jain"][0]["rows"] == 3


def test_what_is_left_of_budgets_is_shown(world: LoginWorld, kit: ShellKit) -> None:
    policy = build_policy("p", ["vision", "speech"])
    budgets = (Budget(resource="cpu", hours=10, period="None"),)
    kit.shared.apply(
        Engine.on_quota_policy, replace(policy, spec=replace(policy.spec, budgets=budgets))
    )
    items = ask(world, query="by=quota")["items"]
    assert [each["budgetLeft"] for each in items] == [{"cpu": "10"}, {"cpu": "10"}]
    assert {str(each["budgetLeft"]) for each in ask(world, TENANT, "by=quota")["items"]} == {"None"}
    with browser(world, ROOT) as client:
        rows = list(csv.reader(io.StringIO(client.get(f"{PATH}.csv?by=quota").text)))
    assert [each[-1] for each in rows] == ["budget left cpu", "10", "10"]


def test_another_resource_and_other_rows(world: LoginWorld) -> None:
    got = ask(world, query="by=quota&resource=memory")
    assert [each["names"] for each in got["items"]] == [{"quota": "vision"}, {"quota": "speech"}]
    assert (got["resource"], got["items"][0]["lent"]) == ("memory", {})
    assert float(got["items"][0]["borrowed"]["nvidia.com/gpu"]) > 0
    assert ask(world, query="resource=none")["resource"] == "nvidia.com/gpu"


def test_names_of_others_are_left_out(world: LoginWorld) -> None:
    got = ask(world, TENANT, "by=user")
    assert [each["names"]["user"] for each in got["items"]] == ["ann", "bob"]
    assert got["others"] == [{"quota": "speech", "used": None}]
    assert (got["jain"][0]["index"], "eve" in str(got)) == (None, False)
    assert max(got["bars"][-1]["values"]) == 0, "theirs is not in the rest"
    (row,) = ask(world, TENANT, "by=quota")["items"]
    assert row["borrowed"] is not None
    three = [TENANTS[2]._replace(namespace=f"team-{each}") for each in "bcd"]
    world.use = PlayedUse([*TENANTS, *three])
    assert float(ask(world, TENANT)["others"][0]["used"]["nvidia.com/gpu"]) > 0


def test_more_rows_than_colors_are_one_bar(world: LoginWorld) -> None:
    world.use = PlayedUse([TENANTS[0]._replace(user=f"u{number:02}") for number in range(12)])
    got = ask(world)
    assert len(got["bars"]) == MOST_BARS + 1
    assert (got["total"], len(got["items"])) == (12, 12)
    whole = sum(float(each["used"]["nvidia.com/gpu"]) for each in got["items"])
    drawn = sum(sum(each["values"]) for each in got["bars"])
    assert drawn == pytest.approx(whole, abs=1)
    assert min(got["bars"][-1]["values"]) > 0


def table(world: LoginWorld, token: str, query: str = "") -> list[list[str]]:
    with browser(world, token) as client:
        got = client.get(f"{PATH}.csv?{query}")
        assert got.status_code == 200, got.text
        assert got.headers["content-type"].startswith("text/csv")
        return list(csv.reader(io.StringIO(got.text)))


def test_all_rows_as_a_file(world: LoginWorld) -> None:
    head, *rows = table(world, ROOT, "by=quota")
    assert head[:4] == ["quota", "nvidia.com/gpu", "cpu", "memory"]
    assert {"borrowed nvidia.com/gpu", "lent nvidia.com/gpu", "evictions"} <= set(head)
    assert [row[0] for row in rows] == ["speech", "vision"]
    assert [row[0] for row in table(world, TENANT)[1:]] == ["ann", "bob"]
    world.use = PlayedUse([TENANTS[0]._replace(user='=HYPERLINK("x")')])
    assert table(world, ROOT)[1][0] == '\'=HYPERLINK("x")'


def test_without_accounts_or_a_record_it_says_so(world: LoginWorld) -> None:
    world.use = None
    got = ask(world)
    assert (got["accounts"], got["recorded"], got["items"]) == (True, False, [])
    assert table(world, ROOT) == [["user"]]
    world.shared._engine.usage.ledger = None  # noqa: SLF001 - as if it were off
    assert ask(world)["accounts"] is False


@pytest.mark.parametrize("query", ["range=2d", "by=color", f"resource={'x' * 300}"])
def test_what_is_not_known_is_refused(world: LoginWorld, query: str) -> None:
    with browser(world, ROOT) as client:
        assert client.get(f"{PATH}?{query}").status_code == 422
