"""Invalid configuration: exit code 2, and one line that names the error and its place."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tls_files import CERTIFICATE, KEY

pytestmark = pytest.mark.scenario

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 90.0
PROGRAMS = ("queue_scheduler", "queue_controllers")
ADDRESSES = ("--health-address", "--metrics-address", "--debug-address")


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    """The kubeconfig of a cluster that does not answer; no program here sends a request."""
    path = tmp_path / "kubeconfig"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(json.dumps(config))
    return path


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def refused_start(module: str, kubeconfig: Path, *flags: str) -> list[str]:
    """Start a program that must refuse; return the lines of its log and its error."""
    free = [f"{flag}=127.0.0.1:0" for flag in ADDRESSES]
    done = subprocess.run(
        [sys.executable, "-m", module, f"--kubeconfig={kubeconfig}", *free, *flags],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    return done.stderr.splitlines()


def refusal(module: str, kubeconfig: Path, *flags: str) -> str:
    """Start a program that must refuse; return its one line of error."""
    lines = refused_start(module, kubeconfig, *flags)
    said = [line for line in lines if not line.startswith("{")]
    assert len(said) == 1, lines
    return said[0]


@pytest.mark.parametrize(
    ("module", "text", "says"),
    [
        pytest.param("queue_scheduler", "plugns: []", "`plugns`", id="scheduler, a key"),
        pytest.param(
            "queue_scheduler", "plugins: [{nam: Priority}]", "`$.plugins[0]`", id="scheduler, below"
        ),
        pytest.param(
            "queue_scheduler",
            "pluginConfigs: {ElasticQuotaV2: {mod: max}}",
            "pluginConfigs.ElasticQuotaV2",
            id="scheduler, an argument",
        ),
        pytest.param(
            "queue_scheduler", "plugins: [{name: Elastic}]", "'Elastic'", id="scheduler, a plugin"
        ),
        pytest.param(
            "queue_scheduler",
            "plugins: []\nplugins: [{name: Priority}]",
            "`plugins` is there already, on line 1",
            id="scheduler, a key twice",
        ),
        pytest.param(
            "queue_scheduler",
            "plugins: [{name: Priority}, {name: Priority}]",
            "'Priority' is listed twice",
            id="scheduler, a plugin twice",
        ),
        pytest.param("queue_controllers", "jbo: {}", "`jbo`", id="controllers, a key"),
        pytest.param(
            "queue_controllers", "job: {runningTimeot: 3}", "job: ", id="controllers, below"
        ),
        pytest.param(
            "queue_controllers", "job: {runningTimeout: soon}", "job.runningTimeout", id="a value"
        ),
    ],
)
def test_a_typo_in_the_configuration_is_named_with_its_path(
    kubeconfig: Path, tmp_path: Path, module: str, text: str, says: str
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    assert says in refusal(module, kubeconfig, f"--config={path}")


@pytest.mark.parametrize(
    ("module", "flag"),
    [(module, flag) for module in PROGRAMS for flag in ADDRESSES],
)
def test_a_port_in_use_is_named_with_its_flag(
    kubeconfig: Path, taken_port: int, module: str, flag: str
) -> None:
    said = refusal(module, kubeconfig, f"{flag}=127.0.0.1:{taken_port}")
    assert said == f"error: {flag}: 127.0.0.1:{taken_port} is already in use"


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        pytest.param(["--debug-address=:0"], "--debug-address", id="open without TLS"),
        pytest.param(["--debug-address=10.0.0.7:19876"], "needs --debug-tls", id="of the machine"),
        pytest.param(
            ["--debug-address=:0", f"--debug-tls-certificate={CERTIFICATE}"],
            "go together",
            id="half",
        ),
        pytest.param(
            ["--debug-address=:0", "--debug-tls-certificate=/none", f"--debug-tls-key={KEY}"],
            "--debug-tls-certificate /none",
            id="no such file",
        ),
        pytest.param(
            [f"--metrics-tls-certificate={CERTIFICATE}"], "--metrics-tls-key", id="metrics, half"
        ),
        pytest.param(
            [f"--metrics-tls-certificate={KEY}", f"--metrics-tls-key={KEY}"],
            "--metrics-tls-certificate",
            id="metrics, no certificate",
        ),
        pytest.param(["--debug-address=nowhere"], "--debug-address", id="no address"),
        pytest.param(["--oversellrate=2"], "oversell", id="oversold in the wrong mode"),
        pytest.param(["--leader-elect-lease-duration=5"], "lease", id="lease too short"),
        pytest.param(["--kube-api-qps=nan"], "--kube-api-qps nan", id="no rate"),
        pytest.param(
            ["--defaultPreemptible=false"], "--defaultPreemptible=false", id="not available"
        ),
    ],
)
def test_invalid_flags_are_refused(kubeconfig: Path, flags: list[str], says: str) -> None:
    assert says in refusal("queue_scheduler", kubeconfig, *flags)


@pytest.mark.parametrize(
    ("module", "flags", "named"),
    [
        pytest.param(
            "queue_scheduler",
            ["--v=2", "--enableVisibilityServer", "--enableParentLimit"],
            {"--enableVisibilityServer", "--enableParentLimit"},
            id="scheduler",
        ),
        pytest.param(
            "queue_controllers",
            ["-v=2", "-wqqps=100"],
            {"--wqqps"},
            id="controllers",
        ),
    ],
)
def test_settings_without_effect_are_named_in_one_line_of_the_log(
    kubeconfig: Path,
    taken_port: int,
    module: str,
    flags: list[str],
    named: set[str],
) -> None:
    taken = f"--metrics-address=127.0.0.1:{taken_port}"
    lines = refused_start(module, kubeconfig, taken, *flags)
    events = [json.loads(line) for line in lines if line.startswith("{")]
    (got,) = [event for event in events if event["event"] == "settings without effect"]
    assert got["settings"].keys() == named
    assert all(got["settings"].values())


@pytest.mark.parametrize("module", PROGRAMS)
def test_a_kubeconfig_that_does_not_exist(tmp_path: Path, module: str) -> None:
    assert "none.yaml" in refusal(module, tmp_path / "none.yaml")
