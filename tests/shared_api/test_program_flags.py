"""The flags of both programs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from shared_api.program_flags import (
    ConfigurationError,
    FlagError,
    ProgramFlags,
    add_process_flags,
    add_program_flags,
    check_pair,
    parse_bool,
    read_config_file,
    read_program_flags,
    with_two_dashes,
)
from shared_api.version import VERSION


def read(*arguments: str) -> ProgramFlags:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    add_program_flags(parser, lease_name="some-lease", metrics_address=":9")
    return read_program_flags(parser.parse_args(with_two_dashes(arguments)), namespace="kq")


def test_a_program_prints_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser(prog="some-program")
    add_process_flags(parser, health_address=":1", metrics_address=":2")
    with pytest.raises(SystemExit) as ended:
        parser.parse_args(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"some-program {VERSION}\n"


def test_the_defaults() -> None:
    flags = read()
    assert flags.leader_elect
    assert (flags.lease_name, flags.lease_namespace) == ("some-lease", "kq")
    times = (flags.lease_seconds, flags.renew_deadline_seconds, flags.retry_seconds)
    assert times == (15, 10.0, 2.0)
    assert (flags.health_address, flags.metrics_address) == (":8081", ":9")
    assert (flags.qps, flags.burst) == (500.0, 1000)
    assert not flags.metrics_secure
    assert flags.metrics_tls_certificate == flags.metrics_tls_key == ""
    assert flags.kubeconfig is None


@pytest.mark.parametrize(
    ("argument", "field", "want"),
    [
        ("--health-probe-bind-address=:1", "health_address", ":1"),
        ("--metrics-bind-address=:2", "metrics_address", ":2"),
        ("--leader-elect=false", "leader_elect", False),
        ("--leader-elect", "leader_elect", True),
        ("--leaderElection=false", "leader_elect", False),
        ("--leader-namespace=n", "lease_namespace", "n"),
        ("--qps=7", "qps", 7.0),
        ("--burst=8", "burst", 8),
        ("--metrics-secure", "metrics_secure", True),
        ("-kubeconfig=f", "kubeconfig", "f"),
        ("--v=4", "log_level", "debug"),
        ("-v=4", "log_level", "debug"),
        ("--v=3", "log_level", "info"),
        ("--leader-elect-lease-duration=30s", "lease_seconds", 30),
        ("--leader-elect-renew-deadline=1m30s", "renew_deadline_seconds", 90.0),
        ("--leader-elect-retry-period=500ms", "retry_seconds", 0.5),
        ("--leader-elect-retry-period=0.5", "retry_seconds", 0.5),
    ],
)
def test_upstreams_spellings_are_accepted(argument: str, field: str, want: object) -> None:
    assert getattr(read(argument), field) == want


@pytest.mark.parametrize("text", ["15.5", "1500ms", "nan", "inf", "soon", "15 s"])
def test_a_lease_lasts_whole_seconds(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        read(f"--leader-elect-lease-duration={text}")
    assert f"--leader-elect-lease-duration: {text!r}" in capsys.readouterr().err


class AddedFlags(argparse.ArgumentParser):
    """Records the added flags."""

    def __init__(self) -> None:
        self.added: list[argparse.Action] = []
        super().__init__(add_help=False)

    def add_argument(self, *names: str, **options: Any) -> argparse.Action:
        self.added.append(super().add_argument(*names, **options))
        return self.added[-1]


def test_every_flag_has_help_with_its_default() -> None:
    parser = AddedFlags()
    add_program_flags(parser, lease_name="some-lease", metrics_address=":9")
    assert [flag.dest for flag in parser.added if not flag.help] == []
    with_default = [
        flag for flag in parser.added if flag.default and flag.default != argparse.SUPPRESS
    ]
    assert [flag.dest for flag in with_default if "default" not in f"{flag.help}"] == []


def test_no_limit_is_a_valid_rate() -> None:
    assert (read("--qps=0").qps, read("--qps=0.5").qps) == (0, 0.5)


def test_a_level_by_name_takes_precedence_over_a_verbosity() -> None:
    assert read("--v=4", "--log-level=warning").log_level == "warning"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param(["--leader-elect=maybe"], "--leader-elect 'maybe'", id="not a boolean"),
        pytest.param(["--writers=0"], "--writers 0", id="no writer"),
        *(
            pytest.param([f"--kube-api-qps={text}"], f"--kube-api-qps {text}:", id=f"qps {text}")
            for text in ("-1", "nan", "inf", "-inf")
        ),
        pytest.param(["--qps", "-0.5"], "--kube-api-qps -0.5:", id="qps by upstream's name"),
        *(
            pytest.param([f"--burst={text}"], f"--kube-api-burst {text}:", id=f"burst {text}")
            for text in ("0", "-5")
        ),
        *(
            pytest.param([f"--leader-elect-{name}=nan"], f"--leader-elect-{name} nan", id=name)
            for name in ("renew-deadline", "retry-period")
        ),
        pytest.param(
            ["--metrics-tls-key=k"],
            "--metrics-tls-certificate and --metrics-tls-key go together",
            id="a key alone",
        ),
        pytest.param(["--metrics-tls-certificate=c"], "go together", id="a certificate alone"),
    ],
)
def test_an_invalid_value_is_one_line_that_names_the_flag(arguments: list[str], says: str) -> None:
    with pytest.raises(FlagError, match=says) as caught:
        read(*arguments)
    assert "\n" not in str(caught.value)


def test_a_certificate_with_its_key() -> None:
    flags = read("--metrics-tls-certificate=c", "--metrics-tls-key=k")
    assert (flags.metrics_tls_certificate, flags.metrics_tls_key) == ("c", "k")
    check_pair("--x", "", "")


@pytest.mark.parametrize(
    ("text", "want"),
    [("true", True), ("T", True), ("1", True), ("False", False), ("f", False), ("0", False)],
)
def test_booleans_are_read_as_in_go(text: str, want: bool) -> None:
    assert parse_bool("--x", text) is want


def config_file(folder: Path, text: str) -> str:
    path = folder / "config.yaml"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("a: 1\nb: 2\na: 3\n", "`a` is there already, on line 1 .*line 3,", id="top"),
        pytest.param("a:\n- b: 1\n- c: 1\n  'c': 2\n", "`c` .*on line 3 .*line 4,", id="below"),
        pytest.param("{a: 1, a: 1}", "`a` .*on line 1 .*line 1, column 8", id="on one line"),
    ],
)
def test_a_duplicate_key_is_named_with_its_line(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says) as caught:
        read_config_file(config_file(tmp_path, text))
    assert str(caught.value).startswith("--config ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("", {}, id="empty"),
        pytest.param(
            "a: {x: 1}\nb: {x: 1}\n", {"a": {"x": 1}, "b": {"x": 1}}, id="in different maps"
        ),
        pytest.param("1: a\n'1': b\n", {1: "a", "1": "b"}, id="a number and a text"),
        pytest.param(
            "a: [&x {b: 1, c: 2}]\nd: {<<: *x, b: 3}\n",
            {"a": [{"b": 1, "c": 2}], "d": {"b": 3, "c": 2}},
            id="merged keys may be overridden",
        ),
    ],
)
def test_keys_that_differ(tmp_path: Path, text: str, want: object) -> None:
    assert read_config_file(config_file(tmp_path, text)) == want


def test_a_list_as_a_key(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="not valid YAML"):
        read_config_file(config_file(tmp_path, "? [1]\n: a\n"))
