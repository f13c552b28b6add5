"""Explanations in sentences: what is borrowed, what could evict, what is not enough alone."""

from __future__ import annotations

import pytest

from koord_queue.answers.explanation import (
    Admitted,
    AppliedLimit,
    Borrowed,
    Change,
    Eviction,
    Evictor,
    Explanation,
    Lender,
    Patch,
    Reclaimer,
)
from koord_queue.answers.refusal import Refusal
from koord_queue.show.explanation import explanation_lines, patch_command, split_numbers

NUMBERS = "limit 4, used 3, requested 2"


def refusal(message: str, *, resource: str = "cpu", namespace: str = "") -> Refusal:
    return Refusal(
        reason="OverQuotaMax",
        message=message,
        quota="a",
        quota_namespace=namespace,
        resource=resource,
        limit="4",
        used="3",
        requested="2",
        missing="1",
    )


def reported(answer: Explanation, *ahead: str) -> list[str]:
    return [line.text for line in explanation_lines(answer, ahead)]


@pytest.mark.parametrize(
    ("given", "words", "numbers"),
    [
        pytest.param(refusal(f"needs more: missing 1 ({NUMBERS})"), "needs more",
            f"cpu of quota a: {NUMBERS}, missing 1", id="a limit"),
        pytest.param(refusal(f"needs more: missing 1 ({NUMBERS}), by rounding"),
            "needs more, by rounding", f"cpu of quota a: {NUMBERS}, missing 1", id="rounded"),
        pytest.param(refusal(f"needs: missing 1 ({NUMBERS})", namespace="x"), "needs",
            f"cpu of quota a in namespace x: {NUMBERS}, missing 1", id="one of several quotas"),
        pytest.param(refusal("hurts: b uses 3, would get 1"), "hurts: b uses 3, would get 1", "",
            id="numbers of another quota"),
        pytest.param(refusal("waits behind x/y", resource=""), "waits behind x/y", "",
            id="no resource"),
    ],
)  # fmt: skip
def test_words_and_numbers_of_a_reason(given: Refusal, words: str, numbers: str) -> None:
    assert split_numbers(given) == (words, numbers)


@pytest.mark.parametrize(
    ("position", "ahead", "want"),
    [
        pytest.param(1, (), "", id="none"),
        pytest.param(2, (), "1 unit is ahead of it in queue q.", id="one without a name"),
        pytest.param(4, ("a", "b"), "3 units are ahead of it in queue q: a, b and 1 other.",
            id="one of another namespace"),
    ],
)  # fmt: skip
def test_what_is_ahead(position: int, ahead: tuple[str, ...], want: str) -> None:
    lines = reported(Explanation(verdict="waiting", queue="q", position=position), *ahead)
    assert "".join(line for line in lines if "ahead" in line) == want


def test_what_an_admitted_unit_borrows_and_what_could_evict_it() -> None:
    limit = AppliedLimit(quota="b", kind="max", resource="cpu", limit="6", used="1", requested="2")
    lent = Borrowed(
        quota="b", resource="cpu", used="5", guaranteed="0", borrowed="5",
        lenders=(Lender(quota="a", amount="3"),),
    )  # fmt: skip
    eviction = Eviction(
        possible=True,
        by_queue=True,
        reclaimers=(Reclaimer(quota="a", only_lower_priority=True),),
        units=(Evictor(namespace="x", name="y", queue="q", quota="a", priority=7),),
        others=2,
        has_more=True,
    )
    admitted = Admitted(limits=(limit,), borrowed=(lent,), eviction=eviction)
    assert reported(
        Explanation(verdict="admitted", summary="It is admitted.", admitted=admitted)
    ) == [
        "It is admitted.",
        "",
        "What it was admitted on:",
        "max of quota b, cpu: limit 6, used 1 before, requested 2",
        "",
        "What is borrowed:",
        "quota b borrows 5 of cpu (uses 5, guaranteed 0), from a (up to 3)",
        "",
        "What could evict it:",
        "units of higher priority in its queue",
        "quota a, which may reclaim what is lent, for units of higher priority only",
        "unit x/y would, if it were its turn (queue q, quota a, priority 7)",
        "perhaps more units: not all were asked",
        "2 units of namespaces you may not read",
    ]


def test_changes_that_do_not_suffice_come_apart() -> None:
    changes = (
        Change(description="Raise it.", sufficient=True, also_starts=("x/y",), other_starts=2),
        Change(kind="stopPolicy", description="Resume it."),
        Change(kind="wait", description="Waiting alone does not help."),
        Change(kind="request", description="No cpu is left.", sufficient=True, practical=False),
    )
    answer = Explanation(verdict="held", changes=changes, changes_complete=False)
    assert reported(answer)[1:] == [
        "",
        "Any one of these would start it now:",
        "1. Raise it.",
        "first start: x/y and 2 others",
        "",
        "Not enough alone:",
        "1. Resume it.",
        "",
        "No cpu is left.",
        "",
        "Waiting alone does not help.",
        "Time was too short to try every kind of change.",
    ]
    for nothing in ((), changes[-1:]):
        said = reported(Explanation(verdict="held", changes=nothing))
        assert "No change was found that would start it now." in said


@pytest.mark.parametrize(
    ("patch", "want"),
    [
        pytest.param(
            Patch(api_version="batch/v1", kind="Job", namespace="x", name="y", patch={"a": "b c"}),
            """kubectl patch job.batch y --namespace x --type merge --patch '{"a": "b c"}'""",
            id="a group",
        ),
        pytest.param(
            Patch(api_version="v1", kind="ResourceQuota", namespace="x", name="y", patch={"a": 1}),
            """kubectl patch resourcequota y --namespace x --type merge --patch '{"a": 1}'""",
            id="the core group",
        ),
        pytest.param(
            Patch(
                api_version="g/v1",
                kind="QuotaPolicy",
                namespace="x",
                name="y",
                operations=({"op": "replace", "path": "/spec/a/0", "value": 2},),
            ),
            "kubectl patch quotapolicy.g y --namespace x --type json --patch "
            """'[{"op": "replace", "path": "/spec/a/0", "value": 2}]'""",
            id="operations",
        ),
        pytest.param(
            Patch(api_version="v1", kind="Node", name="y;rm", patch={}),
            "kubectl patch node 'y;rm' --type merge --patch '{}'",
            id="a name that a shell would read",
        ),
    ],
)
def test_a_patch_as_a_command(patch: Patch, want: str) -> None:
    assert patch_command(patch) == want


def test_waiting_is_not_among_what_would_start_it_now() -> None:
    wait = Change(kind="wait", description="It waits.", sufficient=True, also_starts=("x/y",))
    raised = Change(description="Raise it.", sufficient=True)
    some = reported(Explanation(verdict="waiting", changes=(raised, wait)))
    assert some[1:] == [
        *("", "Any one of these would start it now:", "1. Raise it."),
        *("", "It waits.", "first start: x/y"),
    ]
    assert reported(Explanation(verdict="waiting", changes=(wait,)))[1:] == [
        *("", "It waits.", "first start: x/y"),
    ]


def test_a_long_answer_is_cut_and_says_how_to_see_all_of_it() -> None:
    many = tuple(refusal(f"hurts quota {number}", resource="") for number in range(200))
    answer = Explanation(verdict="waiting", blockers=many)
    short = reported(answer)
    assert short[-1] == "and 190 reasons more: --all shows them"
    assert sum(len(line) for line in short) < 1_000
    whole = [line.text for line in explanation_lines(answer, shows_all=True)]
    assert whole[-1] == "200. OverQuotaMax: hurts quota 199"


def test_numbers_of_an_admission_are_short() -> None:
    limit = AppliedLimit(
        quota="a",
        kind="max",
        resource="memory",
        limit="222016770993",
        used="0",
        requested="107374182400",
    )
    answer = Explanation(verdict="admitted", admitted=Admitted(limits=(limit,)))
    want = "max of quota a, memory: limit 206.8Gi, used 0 before, requested 100Gi"
    assert want in reported(answer)


def test_nothing_would_start_what_has_started() -> None:
    admitted = Explanation(verdict="admitted", summary="It is admitted.", changes=())
    assert reported(admitted) == ["It is admitted."]
    waiting = Explanation(verdict="waiting", summary="It waits.", changes=())
    assert reported(waiting)[-1] == "No change was found that would start it now."
