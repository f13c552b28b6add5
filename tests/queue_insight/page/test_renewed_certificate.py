"""A renewed certificate is served without a restart, as TLS clients see it."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from queue_insight.page import page_server
from queue_insight.page.page_server import Tls
from queue_insight.page.renewed_certificate import RenewedCertificate
from shared_api.process.probes import load_tls
from tests.client_certificates import Identity, make_authority
from tests.queue_insight.page.page_kit import served_page
from tests.queue_scheduler.shell_kit import ShellKit
from tests.waiting import until

OLD, NEW = make_authority("old"), make_authority("new")


class MountedSecret:
    """Files as a kubelet writes them: `tls.crt` leads through `..data`, which is replaced."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0
        self.paths = str(folder / "tls.crt"), str(folder / "tls.key")
        for name in ("tls.crt", "tls.key"):
            (folder / name).symlink_to(Path("..data") / name)

    def write(self, certificate: str, key: str) -> None:
        self._count += 1
        content = self._folder / f"..{self._count}"
        content.mkdir()
        (content / "tls.crt").write_text(certificate)
        (content / "tls.key").write_text(key)
        link = self._folder / "..data_tmp"
        link.symlink_to(content.name)
        link.rename(self._folder / "..data")

    def open(self) -> RenewedCertificate:
        context = load_tls(*self.paths, "--page-tls")
        assert context is not None
        return RenewedCertificate(context, *self.paths)


@pytest.fixture
def secret(tmp_path: Path) -> MountedSecret:
    found = MountedSecret(tmp_path)
    found.write(OLD.pem, OLD.key_pem)
    return found


@pytest.fixture
def port(secret: MountedSecret, kit: ShellKit, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The port of a page that looks at its files often."""
    monkeypatch.setattr(page_server, "LOOK_TICKS", 1)
    with served_page(kit, Tls(secret.open())) as url:
        yield int(url.rpartition(":")[2])


def shows(port: int, identity: Identity) -> bool:
    return ssl.get_server_certificate(("127.0.0.1", port)) == identity.pem


def test_a_new_certificate_is_shown_to_new_connections(secret: MountedSecret, port: int) -> None:
    assert shows(port, OLD)
    secret.write(NEW.pem, NEW.key_pem)
    until(lambda: shows(port, NEW))


@pytest.mark.parametrize(
    ("certificate", "key"),
    [
        pytest.param(NEW.pem, OLD.key_pem, id="a key of another certificate"),
        pytest.param("", "", id="nothing"),
        pytest.param(NEW.pem, "no key", id="no key"),
    ],
)
def test_what_cannot_be_served_is_said_once_and_the_old_one_goes_on(
    secret: MountedSecret,
    kit: ShellKit,
    monkeypatch: pytest.MonkeyPatch,
    certificate: str,
    key: str,
) -> None:
    renewed = secret.open()
    # One thread looks, as in the program: the server's own would say it a second time.
    look = renewed.look
    monkeypatch.setattr(renewed, "look", lambda: None)
    with served_page(kit, Tls(renewed)) as url, capture_logs() as logs:
        look()
        secret.write(certificate, key)
        look()
        look()
        assert shows(int(url.rpartition(":")[2]), OLD)
    assert [each["event"] for each in logs if each["log_level"] == "warning"] == [
        "the certificate of the page cannot be renewed"
    ]


def test_files_that_are_gone_for_a_moment_are_read_when_they_are_back(
    secret: MountedSecret, tmp_path: Path
) -> None:
    renewed = secret.open()
    renewed.look()
    (tmp_path / "..data").unlink()
    with capture_logs() as logs:
        renewed.look()
        secret.write(NEW.pem, NEW.key_pem)
        renewed.look()
    assert [each["log_level"] for each in logs] == ["warning", "info"]
