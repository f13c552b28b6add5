from __future__ import annotations

from typing import Any

import pytest

from koord_queue.checks.facts import Answer
from tests.koord_queue.checks.healthy import deployment, finding_texts, found, listed, named

POLICY = "koord-queue-release-jobs"
PROOF = "koord-queue-prove-submitters"
TYPO = {"fieldRef": "spec.validations[0]", "warning": "no such\nfield"}
TRUSTS = listed(deployment("scheduler", "--names-are-proved=true"))
REFUSED = Answer(right="list validatingadmissionpolicies")


def bound(*actions: str, to: str = POLICY) -> Answer:
    return listed(named("b", spec={"policyName": to, "validationActions": list(actions)}))


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        pytest.param({}, f"ok: in effect: {POLICY}", id="bound"),
        pytest.param(
            {"validating_bindings": bound("Deny", to="another")},
            f"warning: {POLICY} has no effect: no ValidatingAdmissionPolicyBinding names it",
            id="not bound",
        ),
        pytest.param(
            {"validating_bindings": bound("Audit")},
            f"warning: {POLICY} has no effect: none of its bindings denies",
            id="bound to audit only",
        ),
        pytest.param(
            {
                "mutating": listed(named("hold")),
                "mutating_bindings": listed(named("b", spec={"policyName": "hold"})),
            },
            f"ok: in effect: {POLICY}, hold",
            id="one that mutates denies nothing",
        ),
        pytest.param(
            {
                "validating": listed(
                    named(POLICY, status={"typeChecking": {"expressionWarnings": [TYPO]}})
                )
            },
            f"warning: {POLICY}: spec.validations[0]: no such field",
            id="an expression with an error",
        ),
        pytest.param(
            {"validating": listed()},
            "warning: the chart's are not installed: others may resume jobs ahead of their turn",
            id="none is installed",
        ),
        pytest.param(
            {"deployments": TRUSTS},
            "warning: users may submit jobs as others: the scheduler trusts names that no policy"
            " proves",
            id="names are trusted without proof",
        ),
        pytest.param(
            {
                "deployments": TRUSTS,
                "validating": listed(named(PROOF)),
                "validating_bindings": bound("Deny", to=PROOF),
            },
            f"ok: in effect: {PROOF}",
            id="names are proved",
        ),
        pytest.param(
            {"validating": REFUSED},
            "unknown: ValidatingAdmissionPolicy: you may not list validatingadmissionpolicies",
            id="no right",
        ),
    ],
)
def test_policies_are_in_effect_only_if_bound(changes: dict[str, Any], want: str) -> None:
    assert finding_texts("policies", **changes) == [want]


def test_a_policy_without_effect_has_a_mend() -> None:
    [got] = found("policies", validating_bindings=listed())
    assert got.fix == "helm upgrade, which binds it again"
