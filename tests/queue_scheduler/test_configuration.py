"""Flags and the configuration file of the scheduler."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from queue_scheduler.configuration import (
    KoordQueueConfiguration,
    load_configuration,
    parse_flags,
    parse_rate,
)
from queue_scheduler.queueing.strict_mode import StrictMode
from queue_scheduler.tenants.periods import Period
from shared_api.program_flags import ConfigurationError, FlagError
from shared_api.quota_names import QuotaNamespaces
from tests.go_flags import spellings_in_go

HEAD = "apiVersion: scheduling.k8s.io/v1\nkind: KoordQueueConfiguration\n"


def load(tmp_path: Path, text: str) -> KoordQueueConfiguration:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    return load_configuration(str(path))


def test_the_defaults() -> None:
    flags = parse_flags([])
    assert flags.queue_namespace == "koord-queue"
    assert flags.debug.address == "127.0.0.1:19876"
    assert flags.oversell_rate == 1
    assert flags.program.metrics_address == ":10259"
    assert flags.program.lease_name == "koord-queue-scheduler"
    assert flags.program.lease_namespace == "koord-queue"
    assert load_configuration(flags.config).plugin_names() == ("Priority", "ElasticQuotaV2")


def test_the_lease_is_in_the_namespace_of_queues_unless_a_flag_says_otherwise() -> None:
    assert parse_flags(["--queue-namespace=q"]).program.lease_namespace == "q"
    both = ["--queue-namespace=q", "--leader-elect-lease-namespace=l"]
    assert parse_flags(both).program.lease_namespace == "l"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("a.b,a/b", "two keys are shown under one name", id="the same name"),
        pytest.param("a,a", "two keys are shown under one name", id="the same key"),
        pytest.param(",".join(f"k{n}" for n in range(11)), "lists 11 keys, at most 10", id="many"),
    ],
)
def test_labels_of_queues_that_cannot_be_shown(text: str, says: str) -> None:
    with pytest.raises(FlagError, match=says):
        parse_flags([f"--metrics-queue-labels={text}"])


def test_upstreams_shape_is_read(tmp_path: Path) -> None:
    text = HEAD + (
        "plugins: [{name: ElasticQuotaV2}]\n"
        "pluginConfigs: {ElasticQuotaV2: {mode: max}}\n"
        "defaultReclaimProtectTime: 5m\n"
    )
    got = load(tmp_path, text)
    assert got.plugin_names() == ("ElasticQuotaV2",)
    assert got.plugin_configs == {"ElasticQuotaV2": {"mode": "max"}}


@pytest.mark.parametrize(
    ("text", "want"),
    [("", 86400.0), ("admissionCheckTimeout: 10m\n", 600.0), ("admissionCheckTimeout: 0\n", 0.0)],
)
def test_the_timeout_of_admission_checks(tmp_path: Path, text: str, want: float) -> None:
    assert load(tmp_path, text).admission_check_seconds == want


def test_an_empty_file_gives_the_defaults(tmp_path: Path) -> None:
    got = load(tmp_path, "")
    assert got.plugin_names() == ("Priority", "ElasticQuotaV2")
    assert got.protect_seconds == 0


@pytest.mark.parametrize(
    ("text", "want"),
    [("5m", 300.0), ("300000000000", 300.0), ("1.5s", 1.5), ("0", 0.0), ("0s", 0.0), ('""', 0.0)],
)
def test_the_protect_time_is_a_duration_or_nanoseconds(
    tmp_path: Path, text: str, want: float
) -> None:
    got = load(tmp_path, f"{HEAD}defaultReclaimProtectTime: {text}\n")
    assert got.protect_seconds == want


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param(HEAD + "plugns: []\n", "`plugns`", id="a typo at the top"),
        pytest.param(
            HEAD + "plugins:\n- name: Priority\n- nam: x\n", r"`\$\.plugins\[1\]`", id="below"
        ),
        pytest.param(HEAD + "plugins: 3\n", r"`\$\.plugins`", id="the wrong type"),
        pytest.param("kind: Deployment\n", "want scheduling.k8s.io/v1", id="another kind"),
        pytest.param("a: [\n", "not valid YAML", id="not YAML"),
        pytest.param("- 1\n", "config.yaml: ", id="a list"),
        pytest.param(
            HEAD + "defaultReclaimProtectTime: soon\n",
            "defaultReclaimProtectTime: 'soon' is not a duration",
            id="not a duration",
        ),
        pytest.param(
            HEAD + "defaultReclaimProtectTime: -1\n", "defaultReclaimProtectTime: ", id="negative"
        ),
        pytest.param(
            HEAD + "admissionCheckTimeout: soon\n", "admissionCheckTimeout: 'soon'", id="timeout"
        ),
        pytest.param(
            HEAD + "admissionCheckTimeout: -1\n", "admissionCheckTimeout: ", id="negative as well"
        ),
        pytest.param(
            HEAD + "accounts: {timeZone: Europe/Nowhere}\n",
            "accounts.timeZone: there is no time zone 'Europe/Nowhere'",
            id="no time zone",
        ),
        pytest.param(HEAD + "evictionsPerHour: -1\n", "evictionsPerHour", id="a negative rate"),
        pytest.param(HEAD + "evictionsPerHour: 1.5\n", "evictionsPerHour", id="half a rate"),
        pytest.param(HEAD + "boostPerEviction: 1001\n", "boostPerEviction", id="a large boost"),
        pytest.param(
            HEAD + "accounts: {period: Rolling 30d}\n", "accounts.period", id="no such period"
        ),
        pytest.param(HEAD + "accounts: {period: Year}\n", "accounts.period", id="an unknown one"),
        pytest.param(HEAD + "fairTurns: {halfLife: 0}\n", "fairTurns.halfLife", id="no half-life"),
        pytest.param(HEAD + "accounts: {keepIdle: 5m}\n", "accounts.keepIdle", id="too short"),
        pytest.param(HEAD + "accounts: {keepIdle: 9e9h}\n", "accounts.keepIdle", id="no duration"),
        pytest.param(HEAD + "accounts: {keepIdle: 999999h}\n", "accounts.keepIdle", id="too long"),
    ],
)
def test_a_bad_file_is_one_line_that_names_file_and_place(
    tmp_path: Path, text: str, says: str
) -> None:
    with pytest.raises(ConfigurationError, match=says) as caught:
        load(tmp_path, text)
    assert str(caught.value).startswith("--config ")
    assert "\n" not in str(caught.value)


def test_guards_are_off_unless_they_are_set(tmp_path: Path) -> None:
    got = load(tmp_path, "")
    assert (got.evictions_per_hour, got.boost_per_eviction) == (0, 0)
    got = load(tmp_path, HEAD + "evictionsPerHour: 30\nboostPerEviction: 5\n")
    assert (got.evictions_per_hour, got.boost_per_eviction) == (30, 5)


def test_accounts_are_kept_only_if_that_is_said(tmp_path: Path) -> None:
    assert load(tmp_path, "").kept_accounts is None
    assert load(tmp_path, HEAD + "accounts: {period: Day}\n").kept_accounts is None
    got = load(tmp_path, HEAD + "accounts: {enabled: true, keepIdle: 48h}\n").kept_accounts
    assert got is not None
    assert (got.period, str(got.zone), got.keep_seconds) == (Period.MONTH, "UTC", 48 * 3600)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="No such file"):
        load_configuration(str(tmp_path / "none.yaml"))


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("1", Fraction(1)),
        ("1.5", Fraction(3, 2)),
        ("0.1", Fraction(1, 10)),
        (".5", Fraction(1, 2)),
        ("1e-05", Fraction(1, 100_000)),
    ],
)
def test_rates_are_exact(text: str, want: Fraction) -> None:
    assert parse_rate(text) == want


@pytest.mark.parametrize("text", ["0", "-1", "much", "1/2", "", ".", "nan", "inf", "1e999999999"])
def test_an_invalid_rate(text: str) -> None:
    with pytest.raises(FlagError, match="--oversellrate"):
        parse_rate(text)


@pytest.mark.parametrize(
    ("given", "want"),
    [
        ([], False),
        (["--names-are-proved"], True),
        (["--names-are-proved=true"], True),
        (["--names-are-proved=false"], False),
    ],
)
def test_whether_names_are_proved(given: list[str], want: bool) -> None:
    assert parse_flags(given).names_are_proved is want


def test_an_unknown_flag_exits_with_2() -> None:
    with pytest.raises(SystemExit) as caught:
        parse_flags(["--debug-adress=:1"])
    assert caught.value.code == 2


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        ([], True),
        (["--audit-repair"], True),
        (["--audit-repair=true"], True),
        (["--audit-repair=false"], False),
    ],
)
def test_whether_the_self_audit_repairs(arguments: list[str], want: bool) -> None:
    assert parse_flags(arguments).audit_repairs is want


# Upstream's table of flags; True: it is allowed without a value.
UPSTREAMS_TABLE = [
    ("kubeconfig", "/some/file", False),
    ("qps", "50", False),
    ("burst", "50", False),
    ("oversellrate", "1", False),
    ("scheduleSuspendTimeInMillSecond", "10", False),
    ("enableApiHandler", "false", True),
    ("defaultPreemptible", "true", True),
    ("leaderElection", "true", True),
    ("enableParentLimit", "false", True),
    ("enableVisibilityServer", "true", True),
    ("feature-gates", "ElasticQuota=true, QueueUnitActive=false", False),
    ("admissionCheckControllerWorker", "2", False),
    ("config", "/some/file", False),
    ("strictDequeueMode", "false", False),
    ("queue-list", "a,!b", False),
    ("podInitialBackoffSeconds", "1", False),
    ("podMaxBackoffSeconds", "20", False),
    ("default-queue-policy", "Block", False),
    ("v", "4", False),
    ("vmodule", "reconciler=2", False),
    ("logtostderr", "true", True),
]
IN_EFFECT = {
    *("kubeconfig", "qps", "burst", "oversellrate", "leaderElection", "config", "v"),
    *("strictDequeueMode", "queue-list"),
}


@pytest.mark.parametrize(
    ("name", "value", "is_switch"), UPSTREAMS_TABLE, ids=[row[0] for row in UPSTREAMS_TABLE]
)
def test_every_upstream_flag_is_accepted_in_each_of_gos_spellings(
    name: str, value: str, is_switch: bool
) -> None:
    for arguments in spellings_in_go(name, value, is_switch=is_switch):
        reported = parse_flags(arguments).without_effect
        assert set(reported) == {f"--{name}"} - {f"--{each}" for each in IN_EFFECT}, arguments


def test_flags_of_upstreams_chart_are_accepted_and_those_without_effect_reported() -> None:
    flags = parse_flags(
        [
            "--v=4",
            "--oversellrate=1",
            "--qps=50",
            "--burst=60",
            "--config=/etc/plugin.yaml",
            "--enableVisibilityServer",
        ]
    )
    assert (flags.program.qps, flags.program.burst) == (50, 60)
    assert flags.config == "/etc/plugin.yaml"
    assert flags.without_effect == {
        "--enableVisibilityServer": "the debug API answers the same questions: --debug-address"
    }


@pytest.mark.parametrize(
    ("argument", "says"),
    [
        pytest.param("--defaultPreemptible=false", "label jobs", id="not preemptible"),
        pytest.param("--enableApiHandler=maybe", "neither true nor false", id="not a boolean"),
        pytest.param(
            "--feature-gates=ElasticQuota=true,MaximumExecutionTime=true",
            "--feature-gates: MaximumExecutionTime=true is not available",
            id="a gate that is not implemented",
        ),
        pytest.param(
            "--feature-gates=ElasticQuotaTreeDecoupledQueue=false",
            "Queue=false is not available",
            id="a gate that is always enabled",
        ),
        pytest.param("--feature-gates=Elastic=true", "'Elastic' is unknown", id="an unknown gate"),
        pytest.param("--feature-gates=ElasticQuota", "neither true nor", id="a gate without value"),
        pytest.param("--feature-gates=AllAlpha=true", "not available", id="all of them"),
    ],
)
def test_a_flag_that_would_change_which_jobs_start_is_refused(argument: str, says: str) -> None:
    with pytest.raises(FlagError, match=says) as caught:
        parse_flags([argument, "--feature-gates="])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        pytest.param([], StrictMode(), id="off"),
        pytest.param(["--strictDequeueMode"], StrictMode(is_on=True), id="all queues"),
        pytest.param(
            ["--strict-mode=true", "--queue-list=a, b,!c ,!d,"],
            StrictMode(is_on=True, included=frozenset("ab"), excluded=frozenset("cd")),
            id="some included, some excluded",
        ),
        pytest.param(
            ["--small-units=cpu=2500m, nvidia.com/gpu=1"],
            StrictMode(small={"cpu": 2500, "nvidia.com/gpu": 1}),
            id="small units",
        ),
    ],
)
def test_strict_mode(arguments: list[str], want: StrictMode) -> None:
    assert parse_flags(arguments).strict == want


@pytest.mark.parametrize(
    ("arguments", "variable", "want"),
    [
        pytest.param([], "true", {"cpu": 128_000, "nvidia.com/gpu": 8}, id="upstream's variable"),
        pytest.param([], "false", {}, id="it is false"),
        pytest.param(["--small-units=cpu=1"], "true", {"cpu": 1000}, id="the flag wins"),
        pytest.param(["--small-units="], "true", {}, id="the flag says none"),
    ],
)
def test_upstreams_variable_for_small_units(
    arguments: list[str], variable: str, want: dict[str, int]
) -> None:
    got = parse_flags(arguments, {"SmallTaskAcclerate": variable})
    assert got.strict.small == want


@pytest.mark.parametrize(
    ("argument", "says"),
    [
        ("--strictDequeueMode=maybe", "neither true nor false"),
        ("--small-units=cpu", "a resource and its amount"),
        ("--small-units=cpu=much", "--small-units 'cpu=much'"),
        ("--verdict-timeout=soon", "--verdict-timeout"),
        ("--verdict-timeout=0", "more than 0"),
    ],
)
def test_an_invalid_flag_of_strict_mode(argument: str, says: str) -> None:
    with pytest.raises(FlagError, match=says):
        parse_flags([argument])


def test_a_flag_given_twice_is_checked_twice() -> None:
    with pytest.raises(FlagError, match="AllAlpha"):
        parse_flags(["--feature-gates=AllAlpha=true", "--feature-gates=AllBeta=true"])


@pytest.mark.parametrize(
    ("environment", "want"),
    [
        ({}, ""),
        ({"StrictPriority": "true"}, "Block"),
        ({"StrictPriority": "false"}, ""),
        ({"StrictPriority": "true", "StrictConsistency": "true"}, "Priority"),
    ],
)
def test_the_environment_may_set_the_policy_of_nodes_queues(
    environment: dict[str, str], want: str
) -> None:
    assert parse_flags([], environment).node_queue_policy == want


def test_the_gate_about_namespaces_is_a_switch() -> None:
    gate = "ElasticQuotaTreeCheckAvailableQuota"
    assert not parse_flags([]).checks_available_quota
    flags = parse_flags([f"--feature-gates={gate}=false", f"--feature-gates={gate}=true"])
    assert flags.checks_available_quota
    assert flags.without_effect == {}, "it has an effect"


def test_file_or_flag_say_which_namespaces_may_name_a_quota(tmp_path: Path) -> None:
    assert load_configuration(None).quota_namespaces is QuotaNamespaces.OPEN
    said = load(tmp_path, f"{HEAD}quotaNamespaces: listed\n")
    assert said.quota_namespaces is QuotaNamespaces.LISTED
    with pytest.raises(ConfigurationError, match="quotaNamespaces"):
        load(tmp_path, f"{HEAD}quotaNamespaces: some\n")
    assert parse_flags([]).quota_namespaces is None, "the file says"
    flags = parse_flags(["--quota-namespaces=listed"])
    assert flags.quota_namespaces is QuotaNamespaces.LISTED


def test_the_help_names_the_gate_that_has_an_effect(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_flags(["--help"])
    assert "only ElasticQuotaTreeCheckAvailableQuota is heeded" in " ".join(
        capsys.readouterr().out.split()
    )


def test_turns_go_by_use_only_if_that_is_set(tmp_path: Path) -> None:
    assert load(tmp_path, HEAD).turns_half_life is None
    assert load(tmp_path, HEAD + "fairTurns: {halfLife: 1h}\n").turns_half_life is None
    assert load(tmp_path, HEAD + "fairTurns: {enabled: true}\n").turns_half_life == 168 * 3600
    got = load(tmp_path, HEAD + "fairTurns: {enabled: true, halfLife: 3600}\n")
    assert got.turns_half_life == 3600
