"""README.md and docs/ are correct: examples are accepted, names exist, and links have targets.

They are also complete: they have every setting, key, metric, route, and reason.
"""

from __future__ import annotations

import ast
import inspect
import json
import random
import re
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import Any, Final, TypeGuard

import msgspec
import pytest
import yaml

from koord_queue.checks.koordinator import DEFAULT_PREEMPTION, ELASTIC_QUOTA, called_at
from koord_queue.checks.koordinator import KIND as KIND_OF_KUBE_SCHEDULER
from koord_queue.cli.app import COMMANDS
from koord_queue.cli.app import run as run_command
from queue_admission_checks.__main__ import run as run_admission_checks
from queue_controllers.configuration import (
    ExtensionOptions,
    GeneralOptions,
    ReservationOptions,
    read_configuration,
)
from queue_controllers.configuration import parse_flags as parse_controllers_flags
from queue_controllers.debug_api.explanation import JobStanding
from queue_controllers.decision.job_ownership import Rule
from queue_controllers.decision.pending import WAYS_OUT
from queue_insight.insight_program.flags import parse_insight_flags
from queue_scheduler.cache.admission_check_rules import Shortfall
from queue_scheduler.cache.unit_state import UnitState
from queue_scheduler.configuration import KIND, KoordQueueConfiguration, load_configuration
from queue_scheduler.decision import Reason
from queue_scheduler.engine.audit import Kind
from queue_scheduler.plugins.elastic_quota_arguments import ElasticQuotaArguments, read_arguments
from queue_scheduler.plugins.elastic_quota_tree_arguments import ElasticQuotaTreeArguments
from queue_scheduler.plugins.resource_quota_arguments import ResourceQuotaArguments
from queue_scheduler.queue_objects import queue_status
from queue_scheduler.quota.quota_decision import ProblemKind
from queue_scheduler.reporting.metrics import VERDICTS
from shared_api import well_known_labels
from shared_api.client.errors import Invalid
from shared_api.crds import QUEUE_UNIT
from shared_api.fake_api_server.server import FakeApiServer
from shared_api.lifecycle import LifecycleState, lifecycle_state
from shared_api.objects.queue import READY
from shared_api.queue_unit_phases import Phase
from shared_api.testing.virtual_clock import VirtualClock
from tests.demo.load_plan import RUN_SECONDS
from tests.queue_scheduler.all_flags import parse_all_flags
from tests.release.changelog import CHANGELOG, sections
from tests.tidy.source_tree import ROOT, planted, shipped_files
from tests.tidy.user_pages import (
    broken_links,
    camel_texts,
    event_reasons,
    examples,
    first_cells,
    metric_names,
    quoted,
    read_pages,
    shown,
    words,
)

ALL_PAGES: Final = read_pages(of_users=False)
PAGES: Final = read_pages(of_users=True)
COMMAND_LINE: Final = PurePosixPath("docs/command-line.md")
TEXT: Final = "\n".join(PAGES.values())
README: Final = PurePosixPath("README.md")
INDEX: Final = PurePosixPath("docs/index.md")

NO_EFFECT: Final = {well_known_labels.PREFIX + "queue-args"}
"""Keys of upstream that are named because they are not read."""

NO_KEYS: Final = {
    well_known_labels.PREFIX,
    well_known_labels.LEGACY_PREFIX,
    well_known_labels.QUOTA_PREFIX,
    well_known_labels.TREE_ROOT,
    well_known_labels.DEFAULT_QUEUE,
    well_known_labels.DEFAULT_QUEUE_NAMESPACE,
    well_known_labels.ALL_QUOTAS,
    well_known_labels.CREATED_BY_IMPORT,
    *well_known_labels.SPECIAL_QUOTAS,
}
"""Other texts in the tables of keys."""

NO_EVENTS: Final = {"NodeGone", "Pod", "QueueUnit", "Schedule"}
"""Other texts there: kinds, the common action, and a reason that only a copy has."""

FROM_THE_INDEX: Final = re.compile(r"\b(?:pip|pipx|tool) install '?koord-queue\b")
"""A command that asks the package index for this project."""

KIT: Final = {"testing", "fake_api_server"}

NOT_TOLD: Final = {
    # Kinds that are read, written, or requested, and their fields.
    "BearerToken",
    "ClusterTrainingRuntime",
    "CronJob",
    "CustomResourceDefinition",
    "DecimalExponent",
    "DeleteOptions",
    "ExecCredential",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "PartialObjectMetadata",
    "PodTemplate",
    "ReplicaFailure",
    "ReplicaSet",
    "SelfSubjectAccessReview",
    "SelfSubjectReview",
    "SubjectAccessReview",
    "TokenReview",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
    # Words of other programs: the API server, and operators in their conditions.
    "AlreadyExists",
    "HeadPodReady",
    "NotFound",
    "SchedulingGated",
    "RayClusterSuspended",
    "RayClusterSuspending",
    "RayServiceSuspended",
    "ResourcesDeployed",
    "SidecarMode",
    # Operators of label selectors.
    "DoesNotExist",
    "NotIn",
    # Feature gates of upstream, which are accepted unchanged.
    "AllAlpha",
    "AllBeta",
    "ElasticQuotaTreeBuildQueueForQuota",
    "ElasticQuotaTreeDecoupledQueue",
    "MaximumExecutionTime",
    "QueueUnitActive",
    "QueueUnitConditions",
    "QueueUnitRequeueState",
    # Values of a metric's label that are names of actions, and the name of a cache.
    "DeleteUnit",
    "ScheduledPod",
}
"""Texts in camel case that users do not see as a reason."""

OUR_PREFIXES: Final = (
    well_known_labels.PREFIX,
    well_known_labels.QUOTA_PREFIX,
    "scheduling.x-k8s.io/",
)


def known_keys() -> set[str]:
    """Return the labels and annotations that are read or written."""
    values = [value for name, value in vars(well_known_labels).items() if name.isupper()]
    texts = [value for value in values if isinstance(value, str)]
    lists = [each for value in values if isinstance(value, tuple) for each in value]
    return {*texts, *lists} - NO_KEYS


def is_text(node: ast.AST) -> TypeGuard[ast.Constant]:
    """Return whether a node is a string literal."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def keys_of(*structs: type[msgspec.Struct]) -> set[str]:
    """Return the keys that a file may have for these structs."""
    return {field.encode_name for struct in structs for field in msgspec.structs.fields(struct)}


def apply(documents: Iterable[dict[str, Any]]) -> None:
    """Create the objects on a server that has the kinds.

    Raises:
        Invalid: An object is refused.
    """
    server = FakeApiServer(clock=VirtualClock(), rng=random.Random(1))
    server.direct.create_from(ROOT / "crds")
    for kind in ("elasticquotas", "admissionchecks", "provisioningrequestconfigs"):
        server.direct.create_from(ROOT / "tests" / "data" / "crds" / f"{kind}.yaml")
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "koord-queue"}}
    server.direct.create_all([namespace, *documents])


def unknown_keys(text: str) -> set[str]:
    """Return labels and annotations in a text that no constant has."""
    named = {word.partition(":")[0] for word in quoted(text) if word.startswith(OUR_PREFIXES)}
    return named - known_keys() - NO_EFFECT - set(OUR_PREFIXES)


def unknown_flags(text: str, helps: str) -> set[str]:
    """Return flags in a text that no help has."""
    named = {word.partition("=")[0] for word in quoted(text) if word.startswith("--")}
    return {flag for flag in named if flag != "--help" and flag not in helps.split()}


@pytest.mark.parametrize("path", PAGES, ids=str)
def test_the_examples_are_accepted(path: PurePosixPath, tmp_path: Path) -> None:
    for documents in examples(PAGES[path]):
        first = documents[0]
        if "kind" not in first:
            read_configuration(first, {"job"})
        elif first["kind"] == KIND:
            file = tmp_path / "config.yaml"
            file.write_text(yaml.safe_dump(first), encoding="utf-8")
            read_arguments(
                load_configuration(str(file)).plugin_configs["ElasticQuotaV2"], Fraction(1)
            )
        elif first["kind"] == KIND_OF_KUBE_SCHEDULER:
            (profile,) = first["profiles"]
            order = called_at("postFilter", profile["plugins"])
            assert order.index(DEFAULT_PREEMPTION) < order.index(ELASTIC_QUOTA)
        else:
            apply(documents)


def test_an_example_that_clusters_refuse_is_found() -> None:
    _, (job,), *_ = examples(PAGES[README])
    (container,) = job["spec"]["template"]["spec"]["containers"]
    container["resources"] = {"requests": {"nvidia.com/gpu": 1}}
    with pytest.raises(Invalid, match="Limit must be set"):
        apply([job])


def test_the_readme_shows_the_columns_of_the_crd() -> None:
    """A cluster test checks that kubectl shows these columns and values."""
    header, *rows = shown(PAGES[README], "kubectl get queueunits")
    columns = [each.name for each in QUEUE_UNIT.columns if not each.priority]
    assert header.split() == ["NAME", *columns]
    assert {len(row.split()) for row in rows} == {len(columns) + 1}


def test_the_readme_names_the_annotation_of_the_demo() -> None:
    text = PAGES[README]
    _, (job,), *_ = examples(text)
    assert job["spec"]["template"]["metadata"]["annotations"].keys() == {RUN_SECONDS}
    assert f"`{RUN_SECONDS}`" in text.partition("## Install")[0]


def test_nothing_is_installed_from_the_index_before_a_release() -> None:
    """After the first release `pip install koord-queue` may stand in the pages."""
    if any(section.version for section in sections((ROOT / CHANGELOG).read_text("utf-8"))):
        pytest.skip("there is a release")
    texts = {str(path): text for path, text in PAGES.items()}
    texts |= {str(path): path.read_text("utf-8") for path in (ROOT / "examples").rglob("*.ipynb")}
    wrong = {page for page, text in texts.items() if FROM_THE_INDEX.search(text)}
    assert wrong == {"docs/releasing.md"}, "only that page says what to write after a release"


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("    pip install koord-queue\n", True),
        ("`uv tool install 'koord-queue[server]'`", True),
        ("    pip install .\n    helm install koord-queue charts/koord-queue", False),
    ],
)
def test_an_installation_from_the_index_is_found(text: str, *, is_found: bool) -> None:
    assert bool(FROM_THE_INDEX.search(text)) == is_found


def test_the_readme_leads_to_every_page() -> None:
    index = PAGES[INDEX]
    assert f"({INDEX})" in PAGES[README]
    listed = [path for path in PAGES if f"({str(path).removeprefix('docs/')})" in index]
    assert [str(path) for path in PAGES if path not in (README, INDEX, *listed)] == []


def test_each_runbook_is_linked() -> None:
    """The README links the pages of docs/; those in a folder below are linked from one of them."""
    text = PAGES[PurePosixPath("docs/monitoring.md")]
    runbooks = [path for path in PAGES if path.parent == PurePosixPath("docs/runbooks")]
    assert [str(path) for path in runbooks if f"(runbooks/{path.name})" not in text] == []


def test_links_have_a_target() -> None:
    assert "\n".join(map(str, broken_links(ALL_PAGES))) == ""


@pytest.mark.parametrize(
    "link",
    ["docs/none.md", "docs/page.md#none", "#none", "docs/queues.md#the-smallest", "docs#queues"],
)
def test_a_broken_link_is_found(link: str) -> None:
    pages = {**PAGES, README: f"# Koord-Queue\n\nSee [there]({link}).\n"}
    assert [each.line for each in broken_links(pages) if each.path == README] == [3]


@pytest.mark.parametrize(
    ("header", "want"),
    [
        ("ElasticQuotaV2 setting", keys_of(ElasticQuotaArguments)),
        ("scheduler's setting", keys_of(KoordQueueConfiguration) - {"apiVersion", "kind"}),
        ("ElasticQuota setting", keys_of(ElasticQuotaTreeArguments)),
        ("ResourceQuota setting", keys_of(ResourceQuotaArguments)),
        ("controllers' setting", keys_of(GeneralOptions, ExtensionOptions)),
        ("reservations setting", keys_of(ReservationOptions)),
    ],
)
def test_the_tables_have_all_settings(header: str, want: set[str]) -> None:
    assert first_cells(PAGES, header) == want


@pytest.mark.parametrize(
    ("folder", "port"),
    [("queue_insight/debug_api", 19876), ("queue_controllers/debug_api", 19877)],
)
def test_the_tables_have_all_routes_of_the_debug_apis(folder: str, port: int) -> None:
    contract: Any = json.loads((ROOT / folder / "openapi.json").read_bytes())
    assert first_cells(PAGES, f"path on :{port}") - {"/openapi.json"} == set(contract["paths"])


def test_the_table_has_all_fields_of_a_job() -> None:
    contract: Any = json.loads((ROOT / "queue_controllers/debug_api/openapi.json").read_bytes())
    asked_for = {"namespace", "apiVersion", "kind", "name", "extension"}
    fields = set(contract["components"]["schemas"]["JobAnswer"]["properties"])
    assert first_cells(PAGES, "field of a job") == fields - asked_for


def test_the_tables_have_all_reasons_of_a_job() -> None:
    managed = first_cells(PAGES, "reason it is managed")
    left = first_cells(PAGES, "reason it is not")
    assert managed | left == {each.value for each in (*Rule, *JobStanding)} - {""}
    assert managed & left == set()


def test_the_tables_have_all_reasons() -> None:
    to_act_on = first_cells(PAGES, "reason to act on")
    passing = first_cells(PAGES, "reason that passes")
    assert to_act_on | passing == {reason.value for reason in Reason}
    assert to_act_on & passing == set()
    assert set(WAYS_OUT) <= to_act_on


def test_each_reason_belongs_to_one_of_kueue() -> None:
    page = (ROOT / "docs" / "coming-from.md").read_text(encoding="utf-8")
    rows = page.partition("| Kueue's reason |")[2].splitlines()[2:]
    named = [name for row in rows for name in quoted(row.split("|")[2])]
    assert len(rows) == 8
    assert sorted(named) == sorted(reason.value for reason in Reason)


def test_the_tables_have_all_metrics() -> None:
    programs = (
        "scheduler's",
        "controllers'",
        "check controllers'",
        "insight program's",
        "every program's",
    )
    named = {name for each in programs for name in first_cells(PAGES, f"{each} metric")}
    assert named == metric_names(shipped_files())


def test_the_tables_have_all_events() -> None:
    sources = list(shipped_files())
    tables = ("event on a job", "reason of an eviction", "event on a unit", "event on others")
    got = {name for each in tables for name in first_cells(PAGES, each)}
    waiting = {reason.value for reason in Reason}
    assert event_reasons(sources) - got - waiting - NO_EVENTS == set()
    texts = {node.value for each in sources for node in ast.walk(each.tree) if is_text(node)}
    assert got - texts == set()


def test_the_table_has_all_differences_of_the_audit() -> None:
    assert first_cells(PAGES, "difference of the audit") == {kind.value for kind in Kind}


def test_the_table_has_all_problems_of_a_quota() -> None:
    kinds = {kind.value for kind in ProblemKind}
    assert first_cells(PAGES, "problem of a quota") == kinds
    assert kinds - first_cells(PAGES, "event on others") == set()


def test_the_table_has_all_standings_of_a_unit() -> None:
    got = first_cells(PAGES, "`schedulerState` of a unit")
    assert got == {state.value for state in UnitState} - {UnitState.DETACHED.value}


def test_the_glossary_has_the_state_of_each_phase() -> None:
    page = PAGES[PurePosixPath("docs/glossary.md")]
    (table,) = re.findall(
        r"^\| state \| what it means \| phase \|\n.*\n((?:\|.*\n)+)", page, re.MULTILINE
    )
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in table.splitlines()]
    assert [state for state, _, _ in rows] == [each.value for each in LifecycleState]
    for state, _, phases in rows:
        in_no_queue = state == LifecycleState.ON_HOLD
        for phase in quoted(phases):
            assert lifecycle_state(Phase(phase), is_in_queue=not in_no_queue) == state
    assert {phase for _, _, phases in rows for phase in quoted(phases)} == set(Phase)


def test_the_command_line_shows_the_states_of_the_glossary() -> None:
    cells = first_cells({COMMAND_LINE: PAGES[COMMAND_LINE]}, "state")
    assert cells == {each.cell for each in LifecycleState}


def test_the_table_has_all_reasons_of_a_queue() -> None:
    got = first_cells(PAGES, "reason of a queue's `Ready`")
    own = camel_texts([planted(inspect.getsource(queue_status))])
    assert own - got == set()
    assert got - own - {reason.value for reason in Reason} == {READY, "Stopped"}


@pytest.mark.parametrize(
    ("metric", "values"),
    [
        ("koord_queue_units_without_nodes_total", VERDICTS),
        ("koord_queue_admission_check_failures_total", tuple(Shortfall)),
        ("job_schedule_attempts_total", ("scheduled", "unschedulable")),
        (
            "koord_queue_informer_watch_ends_total",
            ("ended", "lost", "stalled", "overdue", "expired", "refused", "asked"),
        ),
    ],
)
def test_the_table_has_the_values_of_a_metrics_label(metric: str, values: tuple[str, ...]) -> None:
    (row,) = (line for line in TEXT.splitlines() if line.startswith(f"| `{metric}`"))
    assert set(values) - words(row) == set()


def test_every_text_that_looks_like_a_reason_is_in_a_page() -> None:
    """Reasons are found by their spelling, not by the call that contains them."""
    found = camel_texts(each for each in shipped_files() if not KIT & set(each.path.parts))
    assert found - words(TEXT) - NOT_TOLD == set()
    assert NOT_TOLD - found == set()


def test_a_reason_is_found_wherever_it_occurs() -> None:
    text = """
__all__ = ["ByExport"]
class Kind(StrEnum):
    ONE = "ByEnum"
def find():
    yield "ByYield", f"no reason {1}"
REASONS = {"a": "ByTable"}
"""
    assert camel_texts([planted(text)]) == {"ByEnum", "ByYield", "ByTable"}


def test_the_reasons_of_events_are_found() -> None:
    text = """
MAIN: Final = "ByConstant"
RecordJobEvent(reason="ByKeyword", message=message)
view.announce_eviction(unit, MAIN, "not a reason")
Notice(kind="QueueUnit", reason=reason.value)
other("Unheard")
"""
    assert event_reasons([planted(text)]) == {"ByConstant", "ByKeyword"}


def test_metrics_are_found_under_the_names_of_a_scrape() -> None:
    source = planted('import prometheus_client\nCounter("jobs", "Jobs")\nGauge("now", "Now")\n')
    assert metric_names([source]) == {"jobs_total", "now"}


def test_all_keys_are_documented() -> None:
    named = {word.partition(":")[0] for word in quoted(TEXT)}
    assert known_keys() - named == set()


def test_the_keys_are_known() -> None:
    assert unknown_keys(TEXT) == set()


def test_an_unknown_key_is_found() -> None:
    assert unknown_keys('`koord-queue/manged: "true"`') == {"koord-queue/manged"}


def test_the_flags_are_known(capsys: pytest.CaptureFixture[str]) -> None:
    for parse in (
        parse_all_flags,
        parse_controllers_flags,
        parse_insight_flags,
        run_admission_checks,
    ):
        with pytest.raises(SystemExit):
            parse(["--help"])
    for command in COMMANDS:
        assert run_command([command, "--help"]) == 0
    helps = capsys.readouterr().out.replace(",", " ")
    assert unknown_flags(TEXT, helps) == set()
    assert unknown_flags("`--mange=all`", helps) == {"--mange"}
