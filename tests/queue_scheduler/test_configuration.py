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
from shared_api.program_flags import ConfigurationError, FlagError
from tests.go_flags import spellings_in_go

HEAD = "apiVersion: scheduling.k8s.io/v1\nkind: KoordQueueConfiguration\n"


def load(tmp_path: Path, text: str) -> KoordQueueConfiguration:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    return load_configuration(str(path))


def test_the_defaults() -> None:
    flags = parse_flags([])
    assert flags.queue_namespace == "koord-queue"
    assert flags.debug_address == "127.0.0.1:19876"
    assert flags.oversell_rate == 1
    assert flags.program.metrics_address == ":10259"
    assert flags.program.lease_name == "koord-queue-scheduler"
    assert flags.program.lease_namespace == "koord-queue"
    assert load_configuration(flags.config).plugin_names() == ("Priority", "ElasticQuotaV2")


def test_the_lease_is_where_the_queues_are_unless_a_flag_says_else() -> None:
    assert parse_flags(["--queue-namespace=q"]).program.lease_namespace == "q"
    both = ["--queue-namespace=q", "--leader-elect-lease-namespace=l"]
    assert parse_flags(both).program.lease_namespace == "l"


def test_upstreams_shape_is_read(tmp_path: Path) -> None:
    text = HEAD + (
        "plugins: [{name: ElasticQuotaV2}]\n"
        "pluginConfigs: {ElasticQuotaV2: {mode: max}}\n"
        "defaultReclaimProtectTime: 5m\n"
    )
    got = load(tmp_path, text)
    assert got.plugin_names() == ("ElasticQuotaV2",)
    assert got.plugin_configs == {"ElasticQuotaV2": {"mode": "max"}}


def test_an_empty_file_is_the_defaults(tmp_path: Path) -> None:
    got = load(tmp_path, "")
    assert got.plugin_names() == ("Priority", "ElasticQuotaV2")
    assert got.without_effect() == {}


@pytest.mark.parametrize(
    ("text", "told"),
    [("5m", True), ("300000000000", True), ("0", False), ("0s", False), ('""', False)],
)
def test_a_protection_that_nobody_needs_is_taken_and_told(
    tmp_path: Path, text: str, told: bool
) -> None:
    got = load(tmp_path, f"{HEAD}defaultReclaimProtectTime: {text}\n").without_effect()
    want = {"defaultReclaimProtectTime": "nothing is reclaimed in this version"}
    assert got == (want if told else {})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param(HEAD + "plugns: []\n", "`plugns`", id="a typo at the top"),
        pytest.param(
            HEAD + "plugins:\n- name: Priority\n- nam: x\n", r"`\$\.plugins\[1\]`", id="below"
        ),
        pytest.param(HEAD + "plugins: 3\n", r"`\$\.plugins`", id="the wrong type"),
        pytest.param("kind: Deployment\n", "want scheduling.k8s.io/v1", id="another kind"),
        pytest.param("a: [\n", "not valid YAML", id="no YAML"),
        pytest.param("- 1\n", "config.yaml: ", id="a list"),
        pytest.param(
            HEAD + "defaultReclaimProtectTime: soon\n",
            "defaultReclaimProtectTime: 'soon' is not a duration",
            id="no duration",
        ),
        pytest.param(
            HEAD + "defaultReclaimProtectTime: -1\n", "defaultReclaimProtectTime: ", id="negative"
        ),
    ],
)
def test_a_bad_file_is_one_line_that_names_file_and_place(
    tmp_path: Path, text: str, says: str
) -> None:
    with pytest.raises(ConfigurationError, match=says) as caught:
        load(tmp_path, text)
    assert str(caught.value).startswith("--config ")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
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
def test_a_rate_that_makes_no_sense(text: str) -> None:
    with pytest.raises(FlagError, match="--oversellrate"):
        parse_rate(text)


def test_an_unknown_flag_ends_the_program_with_2() -> None:
    with pytest.raises(SystemExit) as caught:
        parse_flags(["--debug-adress=:1"])
    assert caught.value.code == 2


# Upstream's table of flags; True: it stands without a value too.
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
IN_EFFECT = {"kubeconfig", "qps", "burst", "oversellrate", "leaderElection", "config", "v"}


@pytest.mark.parametrize(
    ("name", "value", "is_switch"), UPSTREAMS_TABLE, ids=[row[0] for row in UPSTREAMS_TABLE]
)
def test_every_flag_of_upstreams_is_taken_in_each_of_gos_spellings(
    name: str, value: str, is_switch: bool
) -> None:
    for arguments in spellings_in_go(name, value, is_switch=is_switch):
        told = parse_flags(arguments).without_effect
        assert set(told) == {f"--{name}"} - {f"--{each}" for each in IN_EFFECT}, arguments


def test_what_upstreams_chart_passes_is_taken_and_what_does_nothing_is_told() -> None:
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
        pytest.param("--strictDequeueMode", "--strictDequeueMode=true is not", id="strict mode"),
        pytest.param("--defaultPreemptible=false", "label jobs", id="not preemptible"),
        pytest.param("--enableApiHandler=maybe", "neither true nor false", id="no truth value"),
        pytest.param(
            "--feature-gates=ElasticQuota=true,MaximumExecutionTime=true",
            "--feature-gates: MaximumExecutionTime=true is not available",
            id="a gate that is not built",
        ),
        pytest.param(
            "--feature-gates=ElasticQuotaTreeDecoupledQueue=false",
            "Queue=false is not available",
            id="a gate that is always open",
        ),
        pytest.param("--feature-gates=Elastic=true", "'Elastic' is unknown", id="an unknown gate"),
        pytest.param("--feature-gates=ElasticQuota", "neither true nor", id="a gate alone"),
        pytest.param("--feature-gates=AllAlpha=true", "not available", id="all of them"),
    ],
)
def test_a_flag_that_would_change_which_jobs_start_is_refused(argument: str, says: str) -> None:
    with pytest.raises(FlagError, match=says) as caught:
        parse_flags([argument, "--feature-gates="])
    assert "\n" not in str(caught.value)


def test_a_flag_given_twice_is_looked_at_twice() -> None:
    with pytest.raises(FlagError, match="AllAlpha"):
        parse_flags(["--feature-gates=AllAlpha=true", "--feature-gates=AllBeta=true"])
