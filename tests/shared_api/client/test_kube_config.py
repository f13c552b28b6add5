"""The server's address and the login, from kubeconfigs and from a pod's files."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from shared_api.client import kube_config
from shared_api.client.connection_settings import ConnectionSettings, Login, Proxy, SettingsError
from shared_api.client.credential_refresh import CHECK_SECONDS
from shared_api.client.kube_config import open_connection
from shared_api.testing.virtual_clock import VirtualClock
from tests.shared_api.client.scripted_server import CA_PEM, CLIENT_KEY_PEM, CLIENT_PEM

RENEWAL_SECONDS = 60.0


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def config(
    *, cluster: Mapping[str, Any] | None = None, user: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return a kubeconfig with one cluster, user, and context."""
    described = {"server": "https://api.test:6443", **(cluster or {})}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "dev",
        "contexts": [{"name": "dev", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": described}],
        "users": [{"name": "u", "user": dict(user or {"token": "abc"})}],
    }


class Folder:
    """A folder with kubeconfigs in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = VirtualClock(blocking=True)

    def write(self, content: Any, name: str = "config") -> str:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        return str(file)

    def load(
        self,
        kubeconfig: str | None,
        context: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> ConnectionSettings:
        return open_connection(
            kubeconfig,
            context,
            clock=self.clock,
            environment=environment or {},
            service_account_folder=str(self.path / "pod"),
        ).settings

    def token_of(self, settings: ConnectionSettings) -> str:
        return settings.login.current().authorization

    def renewed(self, settings: ConnectionSettings) -> Login:
        """Return the login after the renewal that is due, if any, has ended on its thread."""
        return settings.login.renew(settings.login.current(), RENEWAL_SECONDS)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


# -------------------------------------------------------------------------------- kubeconfigs


def test_a_plain_kubeconfig(folder: Folder) -> None:
    settings = folder.load(folder.write(config()))
    assert (settings.host, settings.port, settings.tls) == ("api.test", 6443, True)
    assert (settings.verify, settings.tls_server_name, settings.proxy) == (True, "", None)
    assert settings.login.current().authorization == "Bearer abc"
    assert settings.login.current().tls_identity == (b"", b"", b"")


def test_tls_settings_and_a_proxy(folder: Folder) -> None:
    cluster = {
        "insecure-skip-tls-verify": True,
        "tls-server-name": "other.test",
        "proxy-url": "http://u:p@proxy.test:3128",
    }
    environment = {"HTTPS_PROXY": "http://from-the-environment.test"}
    settings = folder.load(folder.write(config(cluster=cluster)), environment=environment)
    assert (settings.verify, settings.tls_server_name) == (False, "other.test")
    assert settings.proxy == Proxy("proxy.test", 3128, "Basic dTpw")


def test_the_proxy_of_the_environment(folder: Folder) -> None:
    path = folder.write(config())
    environment = {"HTTPS_PROXY": "http://proxy.test:3128"}
    assert folder.load(path, environment=environment).proxy == Proxy("proxy.test", 3128)
    assert folder.load(path, environment={**environment, "NO_PROXY": ".test"}).proxy is None


@pytest.mark.parametrize("as_data", [True, False])
def test_certificates_as_data_and_as_files(folder: Folder, *, as_data: bool) -> None:
    if as_data:
        cluster = {"certificate-authority-data": b64(CA_PEM)}
        user = {
            "client-certificate-data": b64(CLIENT_PEM),
            "client-key-data": b64(CLIENT_KEY_PEM),
        }
    else:
        for name, pem in (("ca", CA_PEM), ("crt", CLIENT_PEM), ("key", CLIENT_KEY_PEM)):
            folder.write(pem.decode(), name)
        cluster = {"certificate-authority": "ca"}  # relative to the kubeconfig
        user = {"client-certificate": "crt", "client-key": str(folder.path / "key")}
    login = folder.load(folder.write(config(cluster=cluster, user=user))).login.current()
    assert login.tls_identity == (CLIENT_PEM, CLIENT_KEY_PEM, CA_PEM)
    assert login.authorization == ""


def test_no_key_file_is_left_behind(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    user = {"client-certificate-data": b64(CLIENT_PEM), "client-key-data": b64(CLIENT_KEY_PEM)}
    for _ in range(2):
        folder.load(folder.write(config(user=user)))
    assert list(temporary.iterdir()) == []


def test_a_certificate_that_is_replaced_is_read_again(folder: Folder) -> None:
    for name, pem in (("crt", CLIENT_PEM), ("key", CLIENT_KEY_PEM)):
        folder.write(pem.decode(), name)
    user = {"client-certificate": "crt", "client-key": "key"}
    settings = folder.load(folder.write(config(user=user)))
    folder.write("another", "crt")
    folder.clock.advance(CHECK_SECONDS)
    assert folder.renewed(settings).certificate_pem == b"another"


def test_user_and_password(folder: Folder) -> None:
    path = folder.write(config(user={"username": "u", "password": "p"}))
    assert folder.token_of(folder.load(path)) == "Basic dTpw"


def test_a_token_file_rotates_and_takes_precedence_over_a_token(folder: Folder) -> None:
    folder.write("one\n", "tokens/t")
    path = folder.write(config(user={"token": "fixed", "tokenFile": "tokens/t"}))
    settings = folder.load(path)
    assert folder.token_of(settings) == "Bearer one"
    folder.write("two\n", "tokens/t")
    folder.clock.advance(CHECK_SECONDS)
    assert folder.renewed(settings).authorization == "Bearer two"


def test_contexts(folder: Folder) -> None:
    content = config()
    content["contexts"].append({"name": "prod", "context": {"cluster": "p", "user": "u"}})
    content["clusters"].append({"name": "p", "cluster": {"server": "https://prod.test"}})
    path = folder.write(content)
    assert folder.load(path).host == "api.test"
    assert folder.load(path, "prod").host == "prod.test"


def test_a_switch_of_the_context_does_not_affect_a_running_process(folder: Folder) -> None:
    content = config()
    content["contexts"].append({"name": "prod", "context": {"cluster": "c", "user": "admin"}})
    content["users"].append({"name": "admin", "user": {"token": "of-production"}})
    path = folder.write(content)
    settings = folder.load(path)
    folder.write({**content, "current-context": "prod"})
    folder.clock.advance(CHECK_SECONDS)
    assert folder.renewed(settings).authorization == "Bearer abc"


def test_several_files_are_merged(folder: Folder) -> None:
    first, second = config(), config(user={"tokenFile": "t"})
    first["users"] = []
    first["clusters"] = []
    folder.write("from two", "two/t")
    paths = [
        folder.write(first, "one/config"),
        str(folder.path / "missing"),
        folder.write(second, "two/config"),
    ]
    for settings in (
        folder.load(":".join(paths)),
        folder.load(None, environment={"KUBECONFIG": ":".join(paths)}),
    ):
        assert settings.host == "api.test"
        assert folder.token_of(settings) == "Bearer from two"


def test_the_first_file_that_names_a_context_chooses_it(folder: Folder) -> None:
    unnamed, other = config(), config(cluster={"server": "https://other.test"})
    del unnamed["current-context"]
    unnamed["contexts"][0]["name"] = unnamed["clusters"][0]["name"] = "mine"
    unnamed["contexts"][0]["context"]["cluster"] = "mine"
    paths = [
        folder.write("", "empty"),
        folder.write({**unnamed, "current-context": ""}, "first"),
        folder.write(other, "second"),
        folder.write({**unnamed, "current-context": "mine"}, "third"),
    ]
    assert folder.load(":".join(paths)).host == "other.test"
    assert folder.load(":".join(paths), "mine").host == "api.test"


def test_an_explicit_kubeconfig_takes_precedence_over_the_variable_and_the_pod(
    folder: Folder,
) -> None:
    environment = {"KUBECONFIG": "/nowhere", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    assert folder.load(folder.write(config()), environment=environment).host == "api.test"


# ------------------------------------------------------------------------------- broken files

BROKEN = {
    "missing": (None, "there is no kubeconfig at"),
    "empty": ("", "is empty"),
    "not YAML": ("a: [", "ParserError"),
    "not a mapping": ("- a\n", "this is no kubeconfig: "),
    "text": ("a-host-name", "this is no kubeconfig: "),
    "no current context": ({**config(), "current-context": None}, "current-context"),
    "unknown context": ({**config(), "current-context": "x"}, "object with name x in"),
    "unknown cluster": ({**config(), "clusters": []}, "object with name c in"),
    "unknown user": ({**config(), "users": []}, "object with name u in"),
    "no server": (config(cluster={"server": ""}), "config: the cluster has no server"),
    "no such CA": (config(cluster={"certificate-authority": "nope"}), "File does not exist"),
    "no such token file": (config(user={"tokenFile": "nope"}), "nope"),
    "empty token file": (config(user={"tokenFile": "/dev/null"}), "token file /dev/null is empty"),
    "token with a break": (config(user={"token": "a\nb: c"}), "no HTTP header can hold"),
    "no base64": (config(cluster={"certificate-authority-data": "%%%x"}), "kubeconfig"),
    "impersonation": (config(user={"token": "a", "as": "b"}), "not supported"),
    "bad proxy": (config(cluster={"proxy-url": "socks5://p:1"}), "proxy URL"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_an_error_is_reported_in_one_line(folder: Folder, case: str) -> None:
    content, want = BROKEN[case]
    path = str(folder.path / "config") if content is None else folder.write(content)
    with pytest.raises(SettingsError) as caught:
        folder.load(path)
    message = str(caught.value)
    assert want in message
    assert "\n" not in message
    assert path in message or "URL" in message
    assert len(message) < 600


def test_without_a_configuration_the_searched_places_are_named(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(folder.path))
    with pytest.raises(SettingsError, match=r"\.kube/config .KUBECONFIG is not set, and this is"):
        folder.load(None)
    folder.write(config(), ".kube/config")
    assert folder.load(None).host == "api.test"


# ------------------------------------------------------------------------------- exec plugins


def plugin(folder: Folder, script: str, **more: Any) -> dict[str, Any]:
    """Return a user whose login comes from a Python script next to the kubeconfig."""
    folder.write(script, "plugin.py")
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": ["plugin.py"],
            "env": [{"name": "STAGE", "value": "test"}],
            "interactiveMode": "Never",
            **more,
        }
    }


GRANT = """
import json, os, pathlib, sys
asked = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
count = pathlib.Path("count")
number = int(count.read_text()) + 1 if count.exists() else 1
count.write_text(str(number))
status = {"token": f"{os.environ['STAGE']}-{number}", "expirationTimestamp": "2026-11-01T10:05:00Z"}
pathlib.Path("asked").write_text(json.dumps(asked))
print(json.dumps({"apiVersion": asked["apiVersion"], "kind": "ExecCredential", "status": status}))
"""


def test_a_plugin_returns_a_token_and_runs_again_when_it_expires(folder: Folder) -> None:
    user = plugin(folder, GRANT, provideClusterInfo=True)
    settings = folder.load(folder.write(config(user=user)))
    assert folder.token_of(settings) == "Bearer test-1"
    asked = json.loads((folder.path / "asked").read_text())
    assert asked["spec"]["interactive"] is False
    assert asked["spec"]["cluster"]["server"] == "https://api.test:6443"
    folder.clock.advance(200)
    assert folder.token_of(settings) == "Bearer test-1"
    folder.clock.advance(90)
    assert folder.renewed(settings).authorization == "Bearer test-2"


def test_a_plugin_runs_again_when_the_server_rejects_its_token(folder: Folder) -> None:
    settings = folder.load(folder.write(config(user=plugin(folder, GRANT))))
    assert folder.renewed(settings).authorization == "Bearer test-2"


def test_a_plugin_returns_a_certificate(folder: Folder) -> None:
    status = {
        "clientCertificateData": CLIENT_PEM.decode(),
        "clientKeyData": CLIENT_KEY_PEM.decode(),
    }
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "x", "status": status}
    user = plugin(folder, f"print({json.dumps(json.dumps(answer))})")
    login = folder.load(folder.write(config(user=user))).login.current()
    assert login.tls_identity == (CLIENT_PEM, CLIENT_KEY_PEM, b"")
    assert login.authorization == ""


@pytest.mark.parametrize(
    ("script", "more", "want"),
    [
        ("import sys; sys.exit('log in first')", {}, "ended with 1: log in first"),
        ("raise SystemExit(3)", {}, "config: the exec plugin .* ended with 3: it said nothing"),
        ("print('no JSON')", {}, "DecodeError"),
        ('print(\'{"apiVersion":"v9","status":{}}\')', {}, "speaks v9"),
        (
            'print(\'{"apiVersion":"client.authentication.k8s.io/v1","status":{}}\')',
            {},
            "granted nothing",
        ),
        (
            "",
            {"command": "no-such-plugin", "installHint": "brew install it"},
            "no-such-plugin cannot be run: .*brew install it",
        ),
        ("", {"command": None}, "Expected key command in exec"),
    ],
)
def test_the_failure_of_a_plugin_is_reported_in_one_line(
    folder: Folder, script: str, more: dict[str, Any], want: str
) -> None:
    path = folder.write(config(user=plugin(folder, script, **more)))
    with pytest.raises(SettingsError, match=want) as caught:
        folder.load(path)
    assert "\n" not in str(caught.value)


def test_a_plugin_that_hangs_times_out(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kube_config, "PLUGIN_SECONDS", 0.2)
    user = plugin(folder, "import time; time.sleep(60)")
    with pytest.raises(SettingsError, match=r"gave no answer in 0\.2 s"):
        folder.load(folder.write(config(user=user)))


# -------------------------------------------------------------------------------------- in a pod

POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def test_in_a_pod(folder: Folder) -> None:
    folder.write("one\n", "pod/token")
    folder.write(CA_PEM.decode(), "pod/ca.crt")
    settings = folder.load(None, environment=POD)
    assert (settings.host, settings.port, settings.tls) == ("10.96.0.1", 443, True)
    assert settings.login.current().authorization == "Bearer one"
    assert settings.login.current().ca_pem == CA_PEM
    folder.write("two", "pod/token")
    folder.clock.advance(CHECK_SECONDS)
    assert folder.renewed(settings).authorization == "Bearer two"


def test_in_a_pod_with_ipv6(folder: Folder) -> None:
    folder.write("one", "pod/token")
    folder.write(CA_PEM.decode(), "pod/ca.crt")
    settings = folder.load(None, environment={**POD, "KUBERNETES_SERVICE_HOST": "fd00::1"})
    assert settings.host == "fd00::1"


@pytest.mark.parametrize(
    ("files", "want"),
    [
        ({}, "token file does not exist"),
        ({"pod/token": "", "pod/ca.crt": "x"}, "Token file exists but empty"),
        ({"pod/token": "x"}, "certification file does not exist"),
    ],
)
def test_a_pod_without_its_files(folder: Folder, files: dict[str, str], want: str) -> None:
    for name, content in files.items():
        folder.write(content, name)
    with pytest.raises(SettingsError, match=f"service account in .*: .*{want}"):
        folder.load(None, environment=POD)


def test_the_official_package_is_imported_only_if_needed() -> None:
    code = "import sys, shared_api.client.kube_config; print('kubernetes' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
