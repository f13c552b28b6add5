"""Reasons that units, jobs and quotas show, from the enums and tables of the code."""

from __future__ import annotations

import ast
import inspect
from enum import Enum

from queue_controllers.decision.pending import WAYS_OUT
from queue_scheduler.cache.admission_check_rules import Shortfall
from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.engine.audit import Kind
from queue_scheduler.quota.quota_decision import ProblemKind
from queue_scheduler.refusal_texts import stable_message
from shared_api.queue_unit_phases import Phase
from tests.docs.reference_text import code, plain, table
from tests.tidy.source_tree import shipped_files
from tests.tidy.user_pages import event_reasons


def reasons_text() -> str:
    """Return the tables of all reasons."""
    return "\n".join(
        [
            "## Why a unit waits\n",
            table(("reason", "the text of the condition", "what to do"), map(_reason, Reason)),
            "## Phases of a unit\n",
            _listed(Phase),
            "## Problems of a quota\n",
            _listed(ProblemKind),
            "## Failures of admission checks\n",
            _listed(Shortfall),
            "## Differences of the self-audit\n",
            _listed(Kind),
            "## Events\n",
            f"{', '.join(map(code, sorted(event_reasons(shipped_files()))))}.\n",
        ]
    )


def _reason(reason: Reason) -> tuple[str, str, str]:
    example = Refusal(reason=reason, quota="QUOTA", resource="RESOURCE", other="NAME", detail="...")
    said = stable_message(example)
    return code(reason.value), plain(said), plain(WAYS_OUT.get(reason.value, ""))


def _listed(values: type[Enum]) -> str:
    documented = member_docs(values)
    if not documented:
        return ", ".join(code(str(each.value)) for each in values) + ".\n"
    rows = ((code(str(each.value)), plain(documented.get(each.name, ""))) for each in values)
    return table(("value", "meaning"), rows)


def member_docs(values: type[Enum]) -> dict[str, str]:
    """Return the texts below the members of an enum, by the members' names."""
    tree = ast.parse(inspect.getsource(values))
    body = tree.body[0]
    assert isinstance(body, ast.ClassDef)
    found: dict[str, str] = {}
    name = ""
    for node in body.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=member)]):
                name = member
            case ast.Expr(value=ast.Constant(value=str(text))) if name:
                found[name] = text
            case _:
                pass
    return found
