"""Flags and the configuration file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from queue_controllers.configuration import (
    Configuration,
    checks_namespaces,
    load_configuration,
    parse_flags,
    read_configuration,
    reservation_settings,
    settings_of,
)
from queue_controllers.decision.job_settings import Adopt, JobSettings, Manage
from queue_controllers.reservations.reservation_settings import ReservationSettings
from shared_api.program_flags import ConfigurationError, FlagError
from tests.go_flags import spellings_in_go

KNOWN = {"job", "tfjob"}


def test_the_defaults() -> None:
    flags = parse_flags([])
    assert flags.enabled_extensions == ("job",)
    assert flags.program.leader_elect
    assert flags.program.health_address == ":8081"
    assert flags.program.metrics_address == ":8080"
    assert settings_of("job", flags, Configuration()) == JobSettings()


def test_upstreams_flags_are_accepted_with_one_dash_or_two() -> None:
    flags = parse_flags(
        [
            "-kubeconfig=/some/file",
            "--enabled-extensions=job, tfjob,job",
            "-leader-elect=false",
            "--leader-namespace",
            "elsewhere",
            "--health-probe-bind-address=:1",
            "--metrics-bind-address=:2",
            "--qps=5.5",
            "-burst=7",
            "--manage-all-jobs",
            "--workers=3",
            "-v=4",
        ]
    )
    program = flags.program
    assert flags.enabled_extensions == ("job", "tfjob")
    assert (program.kubeconfig, program.leader_elect) == ("/some/file", False)
    assert (program.health_address, program.metrics_address) == (":1", ":2")
    assert (program.qps, program.burst) == (5.5, 7)
    assert program.lease_namespace == "elsewhere"
    assert program.log_level == "debug"
    assert (flags.manage, flags.workers, flags.without_effect) == (Manage.ALL, 3, {})


# Upstream's table of flags; True: it may be given without a value.
UPSTREAMS_TABLE = [
    ("kubeconfig", "/some/file", False),
    ("qps", "300", False),
    ("burst", "300", False),
    ("metrics-bind-address", ":8080", False),
    ("health-probe-bind-address", ":8081", False),
    ("leader-elect", "false", True),
    ("leader-namespace", "koord-queue", False),
    ("enable-job-extensions", "true", True),
    ("enabled-extensions", "job", False),
    ("manage-all-jobs", "false", True),
    ("config", "/some/file", False),
    ("workers", "20", False),
    ("wqqps", "100", False),
    ("enable-pod-reclaim", "false", True),
    ("default-requeue-period", "1m", False),
    ("enable-reservation", "false", True),
    ("enable-network-aware", "false", True),
    ("v", "4", False),
    ("vmodule", "reconciler=2", False),
    ("logtostderr", "true", True),
]
WITHOUT_EFFECT = {
    "--wqqps",
    "--enable-pod-reclaim",
    "--default-requeue-period",
    "--enable-network-aware",
    "--vmodule",
    "--logtostderr",
}


@pytest.mark.parametrize(
    ("name", "value", "is_switch"), UPSTREAMS_TABLE, ids=[row[0] for row in UPSTREAMS_TABLE]
)
def test_every_flag_of_upstreams_is_accepted_in_each_of_gos_spellings(
    name: str, value: str, is_switch: bool
) -> None:
    for arguments in spellings_in_go(name, value, is_switch=is_switch):
        reported = parse_flags(arguments).without_effect
        assert set(reported) == {f"--{name}"} & WITHOUT_EFFECT, arguments


def test_upstreams_defaults_together_are_those_of_a_start() -> None:
    flags = parse_flags([f"--{name}={value}" for name, value, _ in UPSTREAMS_TABLE])
    assert set(flags.without_effect) == WITHOUT_EFFECT
    assert flags.without_effect["--default-requeue-period"] == (
        "jobs are looked at when something changes"
    )


def test_the_master_switch_turns_all_extensions_off() -> None:
    assert parse_flags(["--enable-job-extensions=false"]).enabled_extensions == ()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--leader-elect=perhaps"], "perhaps"),
        (["--workers=0"], "--workers 0"),
        (["--manage-all-jobs", "--manage=labelled"], "contradict"),
        (["--enable-reservation=perhaps"], "--enable-reservation 'perhaps'"),
    ],
)
def test_invalid_values(arguments: list[str], message: str) -> None:
    with pytest.raises(FlagError, match=message):
        parse_flags(arguments)


def test_options_of_an_extension_precede_flags_and_common_ones() -> None:
    configuration = read_configuration(
        {
            "manage": "labelled",
            "adopt": "never",
            "fullPodTemplates": True,
            "scheduleAdmissionLabel": True,
            "reportUnqueuedJobs": True,
            "leaveToKueue": False,
            "priorityFrom": "class",
            "admissionPreview": True,
            "job": {
                "runningTimeout": "10m",
                "backoffTimeout": "1m30s",
                "partialRunningTimeout": 300,
                "podCreationTimeout": "1m",
                "backoffLimit": 6,
                "annotation": True,
                "adopt": "running",
                "fullPodTemplates": False,
            },
            "tfjob": None,
        },
        KNOWN,
    )
    own = settings_of("job", parse_flags(["--queue-namespace=q"]), configuration)
    got = (own.manage, own.adopt, own.full_pod_templates, own.held_by_annotation)
    assert got == (Manage.LABELLED, Adopt.RUNNING, False, True)
    assert (own.running_timeout_seconds, own.backoff.base_seconds) == (600.0, 90.0)
    assert (own.partial_running_timeout_seconds, own.backoff_limit) == (300.0, 6)
    assert own.pod_creation_timeout_seconds == 60.0
    assert own.excluded_namespaces == {"kube-system", "q"}
    other = settings_of("tfjob", parse_flags(["--manage=all"]), configuration)
    assert (other.manage, other.adopt) == (Manage.ALL, Adopt.NEVER)
    assert other.full_pod_templates
    assert own.schedule_admission_label
    assert other.schedule_admission_label
    assert configuration.general.admission_preview
    assert not read_configuration({}, KNOWN).general.admission_preview


@pytest.mark.parametrize(
    ("flags", "options", "want"),
    [
        ((), {}, False),
        ((), {"quotaNamespaces": "listed"}, True),
        (("--quota-namespaces=listed",), {}, True),
        (("--quota-namespaces=open",), {"quotaNamespaces": "listed"}, False),
    ],
)
def test_which_namespaces_may_name_a_quota(
    flags: tuple[str, ...], options: dict[str, str], want: bool
) -> None:
    configuration = read_configuration(options, KNOWN)
    assert checks_namespaces(parse_flags(flags), configuration) is want


def test_jobs_that_are_made_smaller_keep_their_quota_if_they_may_have_it_again() -> None:
    for flags, want in (((), False), (("--keep-grants",), True), (("--keep-grants=false",), False)):
        settings = settings_of("job", parse_flags(flags), read_configuration({}, KNOWN))
        assert settings.keeps_grants is want


def test_the_gates_label_is_for_all_kinds_or_none() -> None:
    with pytest.raises(ConfigurationError, match=r"^job: .*scheduleAdmissionLabel"):
        read_configuration({"job": {"scheduleAdmissionLabel": True}}, KNOWN)


def test_without_options_reservations_are_upstreams() -> None:
    assert reservation_settings(Configuration()) == ReservationSettings()
    assert not parse_flags([]).enable_reservation
    assert parse_flags(["--enable-reservation"]).enable_reservation


def test_options_of_reservations() -> None:
    options = {
        "ttl": "1h",
        "nodeBlacklist": "ops/bad-nodes",
        "nodeBlacklistKey": "nodes",
        "nodeBlacklistExpiry": 60,
    }
    configuration = read_configuration({"reservations": options}, KNOWN)
    assert reservation_settings(configuration) == ReservationSettings(
        ttl_seconds=3600,
        blacklist_namespace="ops",
        blacklist_name="bad-nodes",
        blacklist_key="nodes",
        blacklist_seconds=60.0,
    )
    none = read_configuration({"reservations": {"nodeBlacklist": ""}}, KNOWN)
    assert reservation_settings(none).blacklist_name == ""


WIDGET: dict[str, Any] = {
    "apiVersion": "example.com/v1",
    "kind": "Widget",
    "plural": "widgets",
    "podSets": [{"name": "worker", "template": ".spec.template"}],
    "succeeded": {"path": ".status.phase", "values": ["Done"]},
    "failed": {"path": ".status.phase", "values": ["Failed"]},
}


def test_a_declared_kind_has_options_like_any_other() -> None:
    document = {"kinds": [WIDGET], "widget": {"runningTimeout": "5m"}}
    configuration = read_configuration(document, KNOWN)
    assert [each.kind.kind for each in configuration.declared] == ["Widget"]
    settings = settings_of("widget", parse_flags([]), configuration)
    assert settings.running_timeout_seconds == 300


@pytest.mark.parametrize(
    ("document", "message"),
    [
        pytest.param({"jobb": {}}, "`jobb` is neither", id="an unknown extension"),
        pytest.param({"job": {"runingTimeout": 1}}, "job: .*runingTimeout", id="a typo"),
        pytest.param({"job": {"annotation": "x"}}, "job: .*annotation", id="a wrong type"),
        pytest.param({"job": {"runningTimeout": "soon"}}, "job.runningTimeout", id="no duration"),
        pytest.param({"job": {"runningTimeout": -1}}, "job.runningTimeout", id="negative"),
        pytest.param({"job": {"partialRunningTimeout": "5 m"}}, "job.partialRunning", id="a space"),
        pytest.param({"job": {"podCreationTimeout": "no"}}, "job.podCreation", id="no time"),
        pytest.param({"job": {"backoffLimit": -1}}, "job: .*backoffLimit", id="no count"),
        pytest.param({"manage": "everything"}, "manage", id="an unknown mode"),
        pytest.param({"reservations": {"tll": 1}}, "tll", id="a typo about reservations"),
        pytest.param({"reservations": {"ttl": "0s"}}, "reservations.ttl", id="a zero time to live"),
        pytest.param({"reservations": {"ttl": "soon"}}, "reservations.ttl", id="no time to live"),
        pytest.param(
            {"reservations": {"nodeBlacklistExpiry": "x"}}, "nodeBlacklistExpiry", id="no expiry"
        ),
        pytest.param({"reservations": {"nodeBlacklist": "a"}}, "nodeBlacklist", id="no namespace"),
        pytest.param({"job": {"adopt": "all"}}, "valid are running, never", id="of an extension"),
        pytest.param(
            {"kinds": [WIDGET | {"suspend": ".spec.a["}]},
            r"kinds\[0\].suspend: '.spec.a\['",
            id="a declared kind with an invalid path",
        ),
        pytest.param(
            {"kinds": [WIDGET, WIDGET]}, r"kinds\[1\].key: 'widget' is there", id="declared twice"
        ),
        pytest.param(
            {"kinds": [WIDGET | {"key": "job"}]}, r"kinds\[0\].key: 'job' is", id="a key in use"
        ),
        pytest.param(
            {"kinds": [WIDGET | {"suspends": "x"}]}, "suspends", id="a typo in a declaration"
        ),
        pytest.param(
            {"kinds": [WIDGET | {"apiVersion": "v1"}]}, "apiVersion", id="declared without a group"
        ),
        pytest.param([], "a map is wanted", id="no map"),
    ],
)
def test_errors_name_the_path(document: object, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        read_configuration(document, KNOWN)


def test_unreadable_files(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("a: [", encoding="utf-8")
    empty = tmp_path / "empty.yaml"
    empty.write_text("", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="not valid YAML"):
        load_configuration(str(broken), KNOWN)
    with pytest.raises(ConfigurationError, match="No such file"):
        load_configuration(str(tmp_path / "none.yaml"), KNOWN)
    assert load_configuration(str(empty), KNOWN) == Configuration()
    assert load_configuration(None, KNOWN) == Configuration()
