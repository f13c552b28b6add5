"""Finds the API server and the login, from a kubeconfig or from inside a pod.

This is the only module that imports the official `kubernetes` package, which reads and merges
kubeconfig files, selects the context, finds certificates, and knows the files in a pod. This module
adds a time limit for plugins, reads rotated files again, and reports errors as one line.

The package takes 0.2 s and up to 35 MB to import, so it is imported only when a function needs it.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import yaml

from shared_api.client.connection_settings import (
    ConnectionSettings,
    Login,
    SettingsError,
    connection_settings,
)
from shared_api.client.credential_refresh import CredentialRefresher, Credentials
from shared_api.client.proxy_choice import proxy_from_environment
from shared_api.process.clock import Clock
from shared_api.timestamps import parse_time

if TYPE_CHECKING:
    from collections.abc import Callable

SERVICE_ACCOUNT_FOLDER: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Where the kubelet puts a service account's token and authorities into a pod."""
DEFAULT_KUBECONFIG: Final = "~/.kube/config"
PLUGIN_SECONDS: Final = 45.0
"""Time limit of an exec plugin; those that call a cloud's command line take a few seconds."""
MAX_REASON_CHARS: Final = 300
"""Longest text of a plugin or parser that an error message quotes."""
_BAD_FILE: Final = (yaml.YAMLError, OSError, ValueError, TypeError, LookupError, AttributeError)
"""What the package raises for a malformed file, in addition to its own exception."""


class _Reading(msgspec.Struct, frozen=True):
    """The result of one reading of the configuration."""

    server: str
    fresh: Credentials
    verify: bool = True
    tls_server_name: str = ""
    proxy_url: str = ""
    context: str = ""
    namespace: str = ""


class Connection(NamedTuple):
    """How the API server is reached, and the namespace that the configuration names.

    Attributes:
        settings: Where it is, and how to log in.
        namespace: The context's, or the pod's own; "": none is named.
    """

    settings: ConnectionSettings
    namespace: str


def open_connection(
    kubeconfig: str | None,
    context: str | None,
    *,
    clock: Clock,
    environment: Mapping[str, str] = os.environ,
    service_account_folder: str = SERVICE_ACCOUNT_FOLDER,
) -> Connection:
    """Return where the API server is, how to log in, and which namespace is meant.

    The first of these that is present is used: `kubeconfig`, the variable KUBECONFIG, the service
    account of the pod that the process runs in, ~/.kube/config.

    Args:
        kubeconfig: One path or several, separated by ":" and merged as kubectl does it; None: not
            given.
        context: Its name; None: the current one. Settled now: switching the current context
            later does not move this process to another cluster.
        clock: The time, for renewals of the login.
        environment: Environment variables of the process.
        service_account_folder: Holds `token` and `ca.crt` in a pod.

    Raises:
        SettingsError: Something is missing or malformed; the message says what and where.
    """
    paths = kubeconfig or environment.get("KUBECONFIG", "")
    if not paths and environment.get("KUBERNETES_SERVICE_HOST"):
        folder = Path(service_account_folder)
        first = _read_pod(environment, folder)
        settings = _settings(first, lambda: _read_pod(environment, folder), clock, environment)
        return Connection(settings, first.namespace)
    files = _existing_files(paths)
    first = _read_files(files, context)
    settings = _settings(first, lambda: _read_files(files, first.context), clock, environment)
    return Connection(settings, first.namespace)


def _settings(
    first: _Reading,
    read_again: Callable[[], _Reading],
    clock: Clock,
    environment: Mapping[str, str],
) -> ConnectionSettings:
    return connection_settings(
        first.server,
        CredentialRefresher(first.fresh, lambda: read_again().fresh, clock),
        verify=first.verify,
        tls_server_name=first.tls_server_name,
        proxy_url=first.proxy_url or proxy_from_environment(environment, first.server),
    )


def _existing_files(paths: str) -> list[Path]:
    names = [name for name in (paths or DEFAULT_KUBECONFIG).split(os.pathsep) if name]
    files = [file for file in (Path(name).expanduser() for name in names) if file.is_file()]
    # One of several may be empty, as kubectl has it; the merger refuses it.
    files = [file for file in files if file.stat().st_size > 0] or files
    if not files:
        hint = "" if paths else " (KUBECONFIG is not set, and this is not a pod)"
        raise SettingsError(f"there is no kubeconfig at {' or '.join(names)}{hint}")
    return files


def _untyped(official: Any) -> Any:  # noqa: ANN401 - that is its use
    """Return a class of the package as Any, since its methods have no annotations."""
    return official


@contextmanager
def _one_line(what: str) -> Iterator[None]:
    """Turn errors of reading into a SettingsError with a message of one line."""
    from kubernetes.config import ConfigException  # noqa: PLC0415 - costly, see above

    try:
        yield
    except (ConfigException, *_BAD_FILE) as error:
        reason = " ".join(str(error).split())[:MAX_REASON_CHARS]
        # A plain ValueError is a sentence of this module. The others mean something only with their
        # type, and some are what the package's code makes of a file of another kind.
        is_sentence = isinstance(error, (ConfigException, OSError)) or type(error) is ValueError
        kind = "" if is_sentence else f"{type(error).__name__}: "
        if isinstance(error, (TypeError, LookupError, AttributeError)):
            kind = f"this is no kubeconfig: {kind}"
        raise SettingsError(f"{what}: {kind}{reason}") from error


def _authorization(api_key: str) -> str:
    """Return the header's value; the package does not strip the newline at a file's end."""
    scheme, _, secret = api_key.strip().partition(" ")
    secret = secret.strip()
    if not secret:
        return ""
    if not (secret.isascii() and secret.isprintable()):
        raise ValueError("the token has characters that no HTTP header can hold")
    return f"{scheme.capitalize()} {secret}"


# ------------------------------------------------------------------------------------ in a pod


def _read_pod(environment: Mapping[str, str], folder: Path) -> _Reading:
    from kubernetes.client import Configuration  # noqa: PLC0415 - costly, see above
    from kubernetes.config.incluster_config import InClusterConfigLoader  # noqa: PLC0415 - same

    token_file, ca_file = folder / "token", folder / "ca.crt"
    configuration = Configuration()
    with _one_line(f"the pod's service account in {folder}"):
        loader = _untyped(InClusterConfigLoader)(str(token_file), str(ca_file), environ=environment)
        loader.load_and_set(configuration)
        login = Login(
            authorization=_authorization(configuration.api_key["BearerToken"]),
            ca_pem=ca_file.read_bytes(),
        )
    files = (str(token_file), str(ca_file))
    return _Reading(
        configuration.host,
        Credentials(login, files),
        namespace=_read_if_there(folder / "namespace"),
    )


def _read_if_there(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


# --------------------------------------------------------------------------- from a kubeconfig


def _read_files(files: list[Path], context: str | None) -> _Reading:
    from kubernetes.client import Configuration  # noqa: PLC0415 - costly, see above
    from kubernetes.config.kube_config import (  # noqa: PLC0415 - same
        KubeConfigLoader,
        KubeConfigMerger,
    )

    shown = os.pathsep.join(str(file) for file in files)
    # The package writes certificates that are embedded in the kubeconfig to files; they are deleted
    # with the folder, after their content has been read.
    with _one_line(f"kubeconfig {shown}"), tempfile.TemporaryDirectory() as folder:
        merger = _untyped(KubeConfigMerger)(shown)
        merged = merger.config
        loader = _untyped(KubeConfigLoader)(
            merged,
            active_context=context or _current_context(merger.config_files),
            config_base_path=None,
            temp_file_path=folder,
        )
        chosen = loader.current_context
        cluster = merged["clusters"].get_with_name(chosen["context"]["cluster"])["cluster"]
        server = cluster.safe_get("server")
        if not server:  # the loader would fall back to localhost
            raise ValueError("the cluster has no server")
        user, user_folder = _user_of(merged, chosen["context"].get("user"))
        plugin = user.pop("exec", None)  # the loader would run it, without a time limit
        configuration = Configuration()
        loader.load_and_set(configuration)
        fresh = _fresh_login(configuration, files, user)
        if plugin is not None:
            fresh = _with_plugin(fresh, plugin, cluster, user_folder)
    return _Reading(
        server=str(server),
        fresh=fresh,
        verify=configuration.verify_ssl,
        tls_server_name=cluster.safe_get("tls-server-name") or "",
        proxy_url=cluster.safe_get("proxy-url") or "",
        context=chosen["name"],
        namespace=chosen["context"].get("namespace") or "",
    )


def _current_context(files: Mapping[str, Mapping[str, Any]]) -> str | None:
    """Return the context of the first file that names one, as kubectl does; the merger's is last.

    Args:
        files: Content by path, in the order in which they are merged.
    """
    named = (content.get("current-context") for content in files.values())
    return next((str(name) for name in named if name), None)


def _user_of(merged: Any, name: str | None) -> tuple[dict[str, Any], Path]:  # noqa: ANN401 - the package has no types
    """Return the user's part of the merged file, corrected in place, and its file's folder."""
    if not name:
        return {}, Path()
    found = merged["users"].get_with_name(name)  # raises; the loader would not
    user: dict[str, Any] = found["user"].value
    folder = Path(found.path).parent.absolute()
    # The loader resolves these relative to the file of the cluster, kubectl to that of the user.
    for key in ("client-certificate", "client-key", "tokenFile"):
        if user.get(key):
            user[key] = str(folder / user[key])
    # If both are given, kubectl uses the file, which can rotate; the loader uses the other.
    if user.get("tokenFile"):
        user.pop("token", None)
        if not Path(user["tokenFile"]).read_text().strip():
            raise ValueError(f"the token file {user['tokenFile']} is empty")
    if user.get("as") or user.get("as-uid"):
        raise ValueError(f"user {name} impersonates another one (`as`), which is not supported")
    return user, folder


def _fresh_login(
    configuration: Any,  # noqa: ANN401 - the package has no types
    files: list[Path],
    user: Mapping[str, Any],
) -> Credentials:
    named = (configuration.cert_file, configuration.key_file, configuration.ssl_ca_cert)
    certificate, key, authorities = (Path(name).read_bytes() if name else b"" for name in named)
    login = Login(
        authorization=_authorization(configuration.api_key.get("BearerToken") or ""),
        certificate_pem=certificate,
        private_key_pem=key,
        ca_pem=authorities,
    )
    # Includes the files that the package made for embedded data; they change once, when deleted.
    watched = filter(None, (*named, user.get("tokenFile")))
    return Credentials(login, (*map(str, files), *watched))


# ------------------------------------------------------------------------------- exec plugins


class _PluginStatus(msgspec.Struct, rename="camel"):
    """The credentials that an exec plugin returns."""

    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str = ""


class _ExecCredential(msgspec.Struct, rename="camel"):
    """What an exec plugin prints (client.authentication.k8s.io)."""

    api_version: str
    status: _PluginStatus


def _with_plugin(
    fresh: Credentials,
    plugin: Mapping[str, Any],
    cluster: Any,  # noqa: ANN401 - the package has no types
    folder: Path,
) -> Credentials:
    """Return the credentials with those of the user's exec plugin added."""
    status = _run_plugin(plugin, cluster, folder)
    if not status.token and not (status.client_certificate_data and status.client_key_data):
        raise ValueError(f"the exec plugin {plugin.get('command')} granted nothing")
    login = fresh.login
    expires_at: datetime | None = None
    if status.expiration_timestamp:
        expires_at = parse_time(status.expiration_timestamp)
    return Credentials(
        Login(
            authorization=_authorization(f"Bearer {status.token}"),
            certificate_pem=status.client_certificate_data.encode() or login.certificate_pem,
            private_key_pem=status.client_key_data.encode() or login.private_key_pem,
            ca_pem=login.ca_pem,
        ),
        fresh.files,
        expires_at,
    )


def _run_plugin(plugin: Mapping[str, Any], cluster: Any, folder: Path) -> _PluginStatus:  # noqa: ANN401 - no types
    from kubernetes.config.exec_provider import ExecProvider  # noqa: PLC0415 - costly, see above
    from kubernetes.config.kube_config import ConfigNode  # noqa: PLC0415 - same

    # The package knows the plugin's arguments and environment, but its run() has no time limit.
    node = _untyped(ConfigNode)("exec", dict(plugin))
    provider = _untyped(ExecProvider)(node, str(folder), cluster)
    spec: dict[str, Any] = {"interactive": False}
    if provider.cluster is not None:
        spec["cluster"] = provider.cluster.value
    request = {"apiVersion": provider.api_version, "kind": "ExecCredential", "spec": spec}
    command = str(plugin.get("command"))
    try:
        done = subprocess.run(  # noqa: S603 - the kubeconfig names the command; that is its use
            provider.args,
            env={**provider.env, "KUBERNETES_EXEC_INFO": msgspec.json.encode(request).decode()},
            cwd=provider.cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PLUGIN_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ValueError(
            f"the exec plugin {command} gave no answer in {PLUGIN_SECONDS:g} s"
        ) from error
    except OSError as error:
        hint = f" ({plugin['installHint']})" if plugin.get("installHint") else ""
        raise ValueError(f"the exec plugin {command} cannot be run: {error}{hint}") from error
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip() or "it said nothing"
        raise ValueError(f"the exec plugin {command} ended with {done.returncode}: {said}")
    answer = msgspec.json.decode(done.stdout, type=_ExecCredential)
    if answer.api_version != provider.api_version:
        raise ValueError(f"the exec plugin {command} speaks {answer.api_version}")
    return answer.status
