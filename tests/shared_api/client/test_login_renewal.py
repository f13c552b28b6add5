"""When a login is read again, and what happens when that fails."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
import structlog.testing

from shared_api.client.connection_settings import Login, SettingsError
from shared_api.client.login_renewal import (
    CHECK_SECONDS,
    EXPIRY_LEEWAY,
    MIN_RENEWAL_SECONDS,
    FreshLogin,
    RenewedLogin,
)
from shared_api.testing.virtual_clock import VirtualClock

PATIENCE_SECONDS = 20.0


class Setup:
    """A login that is read from a file, and counts how often."""

    def __init__(self, folder: Path, *, life: timedelta | None = None) -> None:
        self.clock = VirtualClock()
        self.file = folder / "token"
        self.file.write_text("1")
        self.life = life
        self.readings = 0
        self.failing = False
        self.login = RenewedLogin(self.read(), self.read, self.clock)

    def read(self) -> FreshLogin:
        self.readings += 1
        if self.failing:
            raise SettingsError("no token today")
        expires_at = None if self.life is None else self.clock.now() + self.life
        login = Login(authorization=f"Bearer {self.file.read_text()}")
        return FreshLogin(login, (str(self.file),), expires_at)

    def token(self) -> str:
        return self.login.current().authorization.removeprefix("Bearer ")

    def replace(self, token: str) -> None:
        """Replace the file as a kubelet does: by another one."""
        new = self.file.with_suffix(".new")
        new.write_text(token)
        new.rename(self.file)


def test_a_replaced_file_is_read_at_the_next_look(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    setup.replace("2")
    assert setup.token() == "1"
    setup.clock.advance(CHECK_SECONDS)
    assert (setup.token(), setup.readings) == ("2", 2)
    setup.clock.advance(100 * CHECK_SECONDS)
    assert (setup.token(), setup.readings) == ("2", 2), "an unchanged file is not read again"


def test_a_login_is_renewed_before_it_expires(tmp_path: Path) -> None:
    setup = Setup(tmp_path, life=timedelta(seconds=100))
    setup.clock.advance(100 - EXPIRY_LEEWAY.total_seconds() - 1)
    assert (setup.token(), setup.readings) == ("1", 1)
    setup.clock.advance(CHECK_SECONDS)
    assert (setup.token(), setup.readings) == ("1", 2)
    assert setup.token() == "1"
    assert setup.readings == 2


def test_while_a_renewal_fails_the_old_login_is_used_until_its_end(tmp_path: Path) -> None:
    setup = Setup(tmp_path, life=timedelta(seconds=100))
    setup.failing = True
    setup.clock.advance(90)
    with structlog.testing.capture_logs() as logs:
        assert setup.token() == "1"
    assert [entry["error"] for entry in logs] == ["no token today"]
    setup.clock.advance(11)
    with pytest.raises(SettingsError, match="no token today"):
        setup.token()
    setup.failing = False
    setup.clock.advance(CHECK_SECONDS)
    assert setup.token() == "1"


def test_a_missing_file_is_waited_for(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    setup.file.unlink()
    setup.failing = True
    setup.clock.advance(CHECK_SECONDS)
    with structlog.testing.capture_logs():
        assert setup.token() == "1"
    setup.failing = False
    setup.replace("2")
    setup.clock.advance(CHECK_SECONDS)
    assert setup.token() == "2"


def test_a_rejected_login_is_read_again_at_once(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    rejected = setup.login.current()
    setup.replace("2")
    assert setup.login.renew(rejected).authorization == "Bearer 2"
    assert setup.login.renew(rejected).authorization == "Bearer 2"
    assert setup.readings == 2, "who comes late with the old login gets the new one"


def test_rejections_do_not_start_a_plugin_per_request(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    rejected = setup.login.current()
    for _ in range(5):
        assert setup.login.renew(rejected) == rejected
    assert setup.readings == 2
    setup.clock.advance(MIN_RENEWAL_SECONDS)
    setup.login.renew(rejected)
    assert setup.readings == 3


def test_a_failed_renewal_gives_the_rejected_login_back(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    setup.failing = True
    rejected = setup.login.current()
    with structlog.testing.capture_logs() as logs:
        assert setup.login.renew(rejected) == rejected
    assert [entry["log_level"] for entry in logs] == ["warning"]


def test_one_thread_renews_and_the_others_wait_for_it_or_go_on() -> None:
    reading, go_on = threading.Event(), threading.Event()
    clock = VirtualClock()
    readings = []

    def read() -> FreshLogin:
        readings.append(1)
        reading.set()
        assert go_on.wait(PATIENCE_SECONDS)
        return FreshLogin(Login(authorization="Bearer new"))

    old = Login(authorization="Bearer old")
    expired = FreshLogin(old, (), clock.now())
    login = RenewedLogin(expired, read, clock)
    clock.advance(CHECK_SECONDS)
    with ThreadPoolExecutor(4) as threads:
        renewing = threads.submit(login.current)
        assert reading.wait(PATIENCE_SECONDS)
        assert login.current() == old, "who only wants to send does not wait"
        rejected = [threads.submit(login.renew, old) for _ in range(3)]
        go_on.set()
        for result in (renewing, *rejected):
            assert result.result(PATIENCE_SECONDS).authorization == "Bearer new"
    assert len(readings) == 1
