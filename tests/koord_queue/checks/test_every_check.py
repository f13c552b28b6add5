from __future__ import annotations

import msgspec

from koord_queue.checks.every_check import CHECKS, look
from koord_queue.checks.facts import Answer
from koord_queue.checks.findings import Level, has_problems, ok, unknown
from tests.koord_queue.checks.healthy import healthy, listed


def test_each_check_says_something_about_itself() -> None:
    got = look(healthy())
    assert list(dict.fromkeys(each.check for each in got)) == list(CHECKS)
    assert not has_problems(got)
    assert {each.level for each in got if each.check not in {"rights", "accounts"}} == {Level.OK}


def test_what_is_unknown_is_a_problem_to_the_strict() -> None:
    cannot = [unknown("units", "you may not")]
    assert not has_problems(cannot)
    assert has_problems(cannot, strict=True)
    assert not has_problems([ok("units", "none")], strict=True)


def test_a_check_that_is_skipped_says_nothing() -> None:
    assert "units" not in {each.check for each in look(healthy(), {"units"})}


def test_a_server_that_does_not_answer_is_all_that_is_found() -> None:
    down = msgspec.structs.replace(healthy(), server=Answer(failure="down"), queues=listed())
    assert [each.check for each in look(down)] == ["server"]


def test_nothing_that_may_not_be_read_ends_a_check() -> None:
    refused = Answer(right="list it")
    facts = healthy()
    answers = {
        name: refused
        for name in facts.__struct_fields__
        if isinstance(getattr(facts, name), Answer) and name != "server"
    }
    got = look(msgspec.structs.replace(facts, **answers, crds={}))
    assert not has_problems(got)
    assert {"programs", "leases", "policies", "queues", "units"} <= {
        each.check for each in got if each.level is Level.UNKNOWN
    }
