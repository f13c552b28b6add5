"""Questions to a dump: what they show, and what they say of what is wrong."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from koord_queue.cli.app import run
from queue_insight.debug_api.answers import Answers
from queue_insight.debug_api.app import build_whole_app
from queue_scheduler.debug_api.state_answers import StateAnswers
from queue_scheduler.engine.engine import Engine
from shared_api.debug_api.access import open_access
from shared_api.objects.quota_policy import UserLimit
from tests.properties.engine_kit import build_policy
from tests.queue_insight.offline.dump_files import SETTINGS, dump_bytes, edited, write
from tests.queue_scheduler.shell_kit import ShellKit
from tests.served_app import served

JOB: Final = b"""
apiVersion: batch/v1
kind: Job
metadata: {name: new, labels: {quota.scheduling.koordinator.sh/name: team}}
spec:
  suspend: true
  template: {spec: {containers: [{name: a, resources: {requests: {cpu: 2}}}]}}
"""
EDITS: Final = b'[{"kind":"ElasticQuota","name":"team","patch":{"spec":{"max":{"cpu":9}}}}]'


@pytest.fixture
def kit() -> ShellKit:
    """Return an engine with quota and queue `team` of 4 CPUs."""
    kit = ShellKit()
    kit.add_quota("team", 4)
    return kit


@pytest.fixture
def folder(kit: ShellKit, tmp_path: Path) -> Path:
    """Return a folder with a dump, a job and edits."""
    data = dump_bytes(kit)
    write(tmp_path, "dump.json", data)
    write(tmp_path, "learned.json", edited(data, runs=[finished(hour) for hour in range(5)]))
    write(tmp_path, "job.yaml", JOB)
    write(tmp_path, "edits.json", EDITS)
    return tmp_path


def finished(hour: int) -> dict[str, Any]:
    """Return a run like that of the unit `big`, of an hour of the dump's day."""
    at = datetime(2026, 11, 1, hour, tzinfo=UTC).timestamp()
    times = {"created": at, "started": at, "ended": at + 600.0}
    charge = {"cpu": 2000}
    return {"unit": "default/old", "uid": f"old-{hour}", "quota": "team", "charge": charge, **times}


def ask(folder: Path, line: str, dump: str = "dump.json") -> int:
    arguments = [word.replace("DIR", str(folder)) for word in line.split()]
    return run([*arguments, "--from-dump", str(folder / dump)])


@pytest.mark.parametrize(
    ("line", "want"),
    [
        ("explain default/big", "It waits in queue team, at position 1: needs more cpu"),
        ("explain default/big --changes", "1. Raise the max of quota team by 1"),
        ("explain big", "cpu of quota team: limit 4, used 3, requested 2, missing 1"),
        ("explain unit/big", "It waits in queue team, at position 1"),
        ("explain big -n default", "It waits in queue team, at position 1"),
        ("explain default/big -n other", "It waits in queue team, at position 1"),
        ("explain queueunits/big", "It waits in queue team, at position 1"),
        ("explain default/busy", "It is starting: queue team, quota team."),
        ("explain default/busy", "max of quota team, cpu: limit 4, used 0 before, requested 3"),
        ("when default/big", "When big starts is not known yet: 0 of 5 runs."),
        ("when queue/team", "default     big    -          not-known-yet:-0-of-5-runs"),
        ("try -f DIR/job.yaml", "Job default/new: It would not start now."),
        ("try -f DIR/job.yaml --changes", "1. Raise the max of quota team by 3"),
        (
            "what-if --file DIR/edits.json",
            "1 unit starts, 0 wait for another reason",
        ),
        ("what-if --quota team.max.cpu=+1", "  default/big (queue team); it waits now: needs"),
        ("what-if --quota team.max.cpu=+0", "Nothing changes at once."),
        ("what-if --end busy", "1 unit starts"),
        ("what-if --queue team.stop-policy=HoldAndDrain", "default/busy (QueueStopped): "),
        ("units", "default     big    Waiting    team    team    1     needs more cpu"),
        ("units -o json", '"schedulerState":'),
        ("queues", "team    Priority   1         1          team"),
        ("queues -o name", "queue.scheduling.x-k8s.io/team"),
    ],
)
def test_what_a_command_shows(
    folder: Path, capsys: pytest.CaptureFixture[str], line: str, want: str
) -> None:
    assert ask(folder, line) == 0
    assert want in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("explain default/big", "/debug/queueunits/default/big/explain"),
        ("explain default/big --changes", "/debug/queueunits/default/big/explain?changes=true"),
    ],
)
def test_json_is_what_the_route_answers(
    kit: ShellKit, folder: Path, capsys: pytest.CaptureFixture[str], line: str, path: str
) -> None:
    assert ask(folder, f"{line} --output json") == 0
    answers = Answers(StateAnswers(kit.shared, lambda: True, kit.clock.now))
    with served(build_whole_app(answers, open_access, (), "0")) as client:
        assert json.loads(capsys.readouterr().out) == client.get(path).json()


@pytest.mark.parametrize(
    ("line", "want"),
    [
        ("when default/big", "Based on 40 futures played 0s ago, and 5 runs like it"),
        ("when queue/team", "default     big"),
        ("what-if --file DIR/edits.json --horizon 1h", "Within 1 h (20 futures, seed 0;"),
        ("what-if --file DIR/edits.json --horizon 3600", "queue/team   wait-p50"),
    ],
)
def test_what_is_shown_when_enough_runs_have_ended(
    folder: Path, capsys: pytest.CaptureFixture[str], line: str, want: str
) -> None:
    assert ask(folder, line, "learned.json") == 0
    printed = capsys.readouterr().out
    assert want in printed
    assert "not known yet" not in printed


def test_that_nothing_is_known_over_a_time_yet_is_a_note(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(folder, "what-if --file DIR/edits.json --horizon 1h") == 0
    printed = capsys.readouterr()
    assert "1 unit starts" in printed.out
    assert "nothing is known over a time: not known yet: 0 of 5 runs" in printed.err


def test_a_unit_that_never_starts_is_told_so_though_nobody_has_considered_it(
    kit: ShellKit, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kit.add_unit("lost", "not-there")
    dump_bytes(kit)  # it adds a unit that runs and one that waits
    kit.add_unit("huge", cpu=64)
    answers = Answers(StateAnswers(kit.shared, lambda: True), settings=SETTINGS)
    write(tmp_path, "dump.json", answers.dump())
    assert ask(tmp_path, "when default/huge") == 0
    assert "huge does not start as things are: asks for more cpu" in capsys.readouterr().out
    assert ask(tmp_path, "when default/lost") == 0
    assert "lost does not start as things are: no quota" in capsys.readouterr().out


def test_it_is_the_time_of_the_dump(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    then = "2020-01-01T00:00:00Z"
    write(folder, "old.json", edited((folder / "dump.json").read_bytes(), takenAt=then))
    assert ask(folder, "when default/big --output json", "old.json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["computedAt"], found["ageSeconds"]) == (then, 0.0)
    assert ask(folder, "when default/big", "old.json") == 0
    assert "is not known yet" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "name", "want"),
    [
        ("units", "none.json", "none.json: No such file or directory"),
        ("units", "edits.json", "edits.json: it is no dump: Expected `object`, got `array`"),
        (
            "explain default/bug",
            "dump.json",
            "no unit of namespace default belongs to bug",
        ),
        ("explain x/y", "dump.json", "no unit of namespace default belongs to x/y"),
        ("explain unit/bug", "dump.json", "there is no unit default/bug"),
        ("when queue/nosuch", "dump.json", "there is no queue nosuch"),
        ("when default/busy", "dump.json", "default/busy does not wait in a queue, so it has"),
        ("try -f DIR/none.yaml", "dump.json", "none.yaml: No such file or directory"),
        ("try -f DIR/edits.json", "dump.json", "the manifest is refused: document 1 is no object"),
        (
            "what-if --file DIR/job.yaml",
            "dump.json",
            "job.yaml: want a list of edits, or",
        ),
        ("what-if --quota tem.max.cpu=1", "dump.json", "there is no quota tem"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str], line: str, name: str, want: str
) -> None:
    assert ask(folder, line, name) == 1
    said, *_ = capsys.readouterr().err.splitlines()
    assert said.startswith("error: ")
    assert want in said


def test_a_dump_cannot_move_the_cursor(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = (folder / "dump.json").read_bytes().replace(b'"big"', b'"big\\u001b[2J\\u0007"')
    write(folder, "hostile.json", data)
    assert ask(folder, "units", "hostile.json") == 0
    assert ask(folder, "explain x/y\x1b[2J", "hostile.json") == 1
    shown = capsys.readouterr()
    assert "big\ufffd[2J\ufffd" in shown.out
    assert all(each.isprintable() or each == "\n" for each in shown.out + shown.err)


def test_a_dump_is_saved_without_names(
    kit: ShellKit, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = Answers(StateAnswers(kit.shared, lambda: True), settings=SETTINGS)
    saved = folder / "saved.json.gz"
    with served(build_whole_app(answers, open_access, (), "0")) as client:
        assert run(["dump", "--server", str(client.base_url), "-o", str(saved)]) == 0
    assert "2 units, 1 queues, without names" in capsys.readouterr().err
    assert ask(folder, "units", saved.name) == 0
    shown = capsys.readouterr().out
    assert ("big" in shown, len(shown.splitlines())) == (False, 3)


def test_names_are_left_where_that_is_asked_for(folder: Path) -> None:
    saved = folder / "saved.json"
    assert ask(folder, f"dump --no-anonymize -o {saved}") == 0
    assert saved.read_bytes() == (folder / "dump.json").read_bytes()


def test_a_server_alone_is_asked_without_a_kubeconfig(
    kit: ShellKit, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(folder / "none"))
    answers = Answers(StateAnswers(kit.shared, lambda: True))
    with served(build_whole_app(answers, open_access, (), "0")) as client:
        server = f"--server={client.base_url}"
        assert run(["explain", "big", server]) == 0
        assert run(["explain", "default/big", server]) == 0
        assert run(["explain", "job/big", server]) == 1
        assert run(["explain", "big"]) == 1
    shown = capsys.readouterr()
    assert shown.out.startswith("It waits in queue team, at position 1: ")
    unknown, named, unconfigured, _ = shown.err.splitlines()
    assert unknown == "error: which unit job/big has is not known without the API server"
    assert named.startswith("Name the unit itself")
    assert unconfigured.startswith("error: no cluster is configured: ")


@pytest.mark.parametrize(
    ("line", "want"),
    [
        ("explain big --changes --at 1h", "--changes is about now, not about --at."),
        ("explain big --at tomorrow", "for '--at': 'tomorrow' is not"),
        ("what-if", "Nothing is edited: "),
        ("what-if --end a --horizon 31d", "Invalid value for '--horizon'"),
        ("what-if --end a --horizon 721h", "721h is not above 0, or more than 30 days (720h)."),
        ("what-if --end a --seed -1", "Invalid value for '--seed'"),
        ("dump --server http://127.0.0.1:1", "--from-dump and --server are two sources: give one."),
        ("try", "Missing option '-f' / '--filename'"),
    ],
)
def test_mistakes_of_a_line(
    folder: Path, capsys: pytest.CaptureFixture[str], line: str, want: str
) -> None:
    assert ask(folder, line) == 2
    assert want in capsys.readouterr().err


def test_a_server_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["dump", "--server", "http://127.0.0.1:1"]) == 1
    assert "error: the server http://127.0.0.1:1 does not answer: " in capsys.readouterr().err


# --- hostile files ------------------------------------------------------------------------------

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda each: (
        st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=9), each, max_size=3)
    ),
    max_leaves=6,
)


def places(tree: Any) -> list[tuple[Any, Any]]:
    """Return every place of a JSON tree: where it is, and under which key."""
    keys = tree.items() if isinstance(tree, dict) else enumerate(tree)
    children = [(each, tree, key) for key, each in keys]
    return [
        place
        for each, parent, key in children
        for place in ((parent, key), *(places(each) if isinstance(each, dict | list) else ()))
    ]


@pytest.mark.parametrize("line", ["units", "explain default/big --changes", "dump -o DIR/out"])
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_hostile_dump_ends_with_an_answer_or_a_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str], line: str, data: st.DataObject
) -> None:
    tree = msgspec.json.decode((folder / "dump.json").read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        parent, key = data.draw(st.sampled_from(places(tree)))
        parent[key] = data.draw(values)
    write(folder, "hostile.json", json.dumps(tree).encode())
    code = ask(folder, line, "hostile.json")
    said = capsys.readouterr().err.splitlines()
    assert (code, sum(each.startswith("error: ") for each in said)) in {(0, 0), (1, 1)}


def test_a_limit_of_a_policy_of_a_dump_is_raised(
    kit: ShellKit, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    limit = build_policy("limits", ["team"], UserLimit(users=("*",), running=1))
    kit.shared.apply(Engine.on_quota_policy, limit)
    write(tmp_path, "dump.json", dump_bytes(kit))
    raised = "what-if --quota team.max.cpu=+1"
    assert ask(tmp_path, raised) == 0
    assert "1 unit starts" not in capsys.readouterr().out
    assert ask(tmp_path, f"{raised} --policy limits.userLimits[0].running=+1") == 0
    assert "1 unit starts" in capsys.readouterr().out


def test_of_a_quota_of_a_dump_it_is_said_that_it_has_no_budgets(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(folder, "when quota/team") == 0
    assert "quota team has no budgets" in capsys.readouterr().err
