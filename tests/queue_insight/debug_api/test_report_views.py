"""Reports: what is added up, how evenly it was used, and what is left out for whom."""

from __future__ import annotations

import pytest

from queue_insight.debug_api.report_views import (
    ReportHead,
    ReportSums,
    ReportView,
    jain_indexes,
    largest_rows,
)
from queue_insight.record.samples import bin_of
from queue_insight.record.use_sums import QuotaUse, UseBlock, UseKey, UseRow, join_hour

HOUR_OF_GPU = {"nvidia.com/gpu": 3600}
HEAD = ReportHead(leader=True, source="record", note="", start=0, end=7200, complete_from=None)


def row(
    user: str, gpus: int = 1, *, namespace: str = "ns", quota: str = "a", kind: str = "Job"
) -> UseRow:
    used = {name: amount * gpus for name, amount in HOUR_OF_GPU.items()} if gpus else {}
    return UseRow(UseKey(quota, "q", namespace, "lab", user, kind), used, {}, 0, {})


def report(
    *hours: list[UseRow],
    by: tuple[str, ...] = ("user",),
    readable: set[str] | None = None,
    is_over: bool = True,
    quotas: dict[str, QuotaUse] | None = None,
) -> ReportView:
    sums = ReportSums(by, readable)
    for rows in hours:
        sums.add(join_hour([UseBlock(rows, quotas or {})]), is_over=is_over)
    return sums.view(HEAD, 0, 100)


def gpus(view: ReportView) -> dict[tuple[str, ...], str]:
    return {tuple(each.names.values()): each.used.get("nvidia.com/gpu", "0") for each in view.items}


@pytest.mark.parametrize(
    ("uses", "want"),
    [((3, 1), 0.8), ((1, 1, 1, 0), 0.75), ((5,), 1.0), ((1, 1), 1.0), ((0, 0), None)],
)
def test_jain(uses: tuple[int, ...], want: float | None) -> None:
    view = report([row(f"u{number}", use) for number, use in enumerate(uses)])
    (got,) = view.jain
    assert (got.quota, got.rows) == ("", len(uses))
    assert got.index == ({} if want is None else {"nvidia.com/gpu": want})


def test_jain_is_of_the_rows_of_each_quota() -> None:
    rows = [row("ann", 3), row("bob", 1), row("ann", 1, quota="b"), row("bob", 1, quota="b")]
    view = report(rows, by=("quota", "user"))
    assert [(each.quota, each.index) for each in view.jain] == [
        ("a", {"nvidia.com/gpu": 0.8}),
        ("b", {"nvidia.com/gpu": 1.0}),
    ]


def test_jain_of_each_resource_by_itself() -> None:
    assert jain_indexes([{"cpu": 1, "gpu": 1}, {"cpu": 1}]) == {"cpu": 1.0, "gpu": 0.5}


def test_hours_are_added_up_by_what_is_asked_for() -> None:
    hours = [row("ann", 2), row("bob", kind="PyTorchJob")], [row("ann", quota="b")]
    assert gpus(report(*hours)) == {("ann",): "3", ("bob",): "1"}
    assert gpus(report(*hours, by=("quota", "user"))) == {
        ("a", "ann"): "2",
        ("a", "bob"): "1",
        ("b", "ann"): "1",
    }
    assert gpus(report(*hours, by=("kind",))) == {("Job",): "3", ("PyTorchJob",): "1"}
    assert gpus(report(*hours, by=("group",))) == {("lab",): "4"}


def test_waits_evictions_and_lost_hours() -> None:
    first = row("ann")
    first.waits = {bin_of(60.0): 9, bin_of(3600.0): 1}
    second = row("ann")
    second.evictions, second.lost = 2, {"nvidia.com/gpu": 1800}
    (got,) = report([first], [second]).items
    assert (got.admitted, got.evictions, got.lost) == (10, 2, {"nvidia.com/gpu": "0.5"})
    assert got.wait_p50 == pytest.approx(60, rel=0.06)
    assert got.wait_p90 == pytest.approx(60, rel=0.06)


def test_what_a_quota_borrowed_is_in_its_row_alone() -> None:
    quotas = {"a": QuotaUse({"nvidia.com/gpu": 3600}, {"cpu": 3_600_000}, (("ns",),))}
    (got,) = report([row("ann")], by=("quota",), quotas=quotas).items
    assert (got.borrowed, got.lent) == ({"nvidia.com/gpu": "1"}, {"cpu": "1"})
    (got,) = report([row("ann")], quotas=quotas).items
    assert (got.borrowed, got.lent) == (None, None)


def test_a_quota_that_only_lends_has_a_row() -> None:
    quotas = {"idle": QuotaUse({}, {"cpu": 3_600_000}), "b": QuotaUse({}, {}, (("x",),))}
    view = report([row("ann")], by=("quota",), quotas=quotas, readable={"ns"})
    assert [(each.names["quota"], each.lent) for each in view.items] == [
        ("a", {}),
        ("idle", {"cpu": "1"}),
    ]
    assert view.total == 2


@pytest.mark.parametrize(
    ("namespaces", "is_shown"),
    [
        ((("ns",),), True),
        ((("ns", "b"),), False),
        ((("b", "c", "d"),), True),
        ((("b", "c", "d"), ("b",)), False),
        (None, False),
    ],
)
def test_what_a_quota_borrowed_is_hidden_if_it_tells_of_one_or_two(
    namespaces: tuple[tuple[str, ...], ...] | None, is_shown: bool
) -> None:
    quotas = {"a": QuotaUse({"cpu": 3_600_000}, {}, namespaces)}
    (got,) = report([row("ann")], by=("quota",), quotas=quotas, readable={"ns"}).items
    assert (got.borrowed is not None) is is_shown
    (got,) = report([row("ann")], by=("quota",), quotas=quotas).items
    assert got.borrowed == {"cpu": "1"}


def others(view: ReportView) -> dict[str, str | None]:
    return {
        each.quota: None if each.used is None else each.used.get("nvidia.com/gpu", "0")
        for each in view.others
    }


def test_others_are_summed_up_if_they_are_three_in_every_hour() -> None:
    three = [row("zebra", namespace=name) for name in ("b", "c", "d")]
    view = report([row("ann"), *three], readable={"ns"})
    assert (gpus(view), others(view)) == ({("ann",): "1"}, {"a": "3"})
    assert view.jain[0].index is None
    assert "zebra" not in view.model_dump_json()
    one = [row("x", namespace="b")]
    assert others(report(three, one, readable={"ns"})) == {"a": None}, "the difference would tell"
    assert others(report(three, three, readable={"ns"})) == {"a": "6"}
    assert others(report(three, [], readable={"ns"})) == {"a": "3"}


def test_a_report_of_one_namespace_has_no_sums_with_others() -> None:
    three = [row("zebra", namespace=name) for name in ("b", "c", "d")]
    quotas = {"a": QuotaUse({"cpu": 3_600_000}, {}, (("b", "c", "d", "ns"),))}
    sums = ReportSums(("quota",), {"ns"}, has_others=False)
    sums.add(join_hour([UseBlock([row("ann", 3), *three], quotas)]), is_over=True)
    view = sums.view(HEAD, 0, 100)
    assert (others(view), gpus(view)) == ({}, {("a",): "3"})
    assert view.items[0].borrowed is None


def test_others_of_an_hour_that_is_not_over_are_left_out() -> None:
    three = [row("x", namespace=name) for name in ("b", "c", "d")]
    assert others(report(three, readable=set(), is_over=False)) == {"a": "0"}


def test_rows_come_in_pages() -> None:
    sums = ReportSums(("user",), None)
    sums.add(UseBlock([row(f"u{number}", number) for number in range(5)]), is_over=True)
    view = sums.view(HEAD, 1, 2)
    assert (view.total, [each.names["user"] for each in view.items]) == (5, ["u1", "u2"])
    assert largest_rows(sums.rows, "nvidia.com/gpu", 2) == [("u4",), ("u3",)]
