"""When a login is read again, and what happens if that fails."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
import structlog.testing

from shared_api.client.connection_settings import Login, SettingsError
from shared_api.client.credential_refresh import (
    CHECK_SECONDS,
    EXPIRY_LEEWAY,
    MIN_RENEWAL_SECONDS,
    CredentialRefresher,
    Credentials,
)
from shared_api.testing.virtual_clock import VirtualClock

LONG = timedelta(seconds=100)
PATIENCE_SECONDS = 60.0


class Setup:
    """A login that is read from a file, with a count of the readings."""

    def __init__(
        self, folder: Path, *, life: timedelta | None = None, runs_at_once: bool = True
    ) -> None:
        self.clock = VirtualClock()
        self.file = folder / "token"
        self.file.write_text("1")
        self.life = life
        self.readings = 0
        self.failing = False
        self.begun: list[Callable[[], None]] = []
        """Renewals in progress, which the test ends."""
        run = (lambda work: work()) if runs_at_once else self.begun.append
        self.login = CredentialRefresher(self.read(), self.read, self.clock, run=run)

    def read(self) -> Credentials:
        self.readings += 1
        if self.failing:
            raise SettingsError("no token today")
        expires_at = None if self.life is None else self.clock.now() + self.life
        login = Login(authorization=f"Bearer {self.file.read_text()}")
        return Credentials(login, (str(self.file),), expires_at)

    def token(self) -> str:
        return self.login.current().authorization.removeprefix("Bearer ")

    def replace(self, token: str) -> None:
        """Replace the file by another one, as a kubelet does."""
        new = self.file.with_suffix(".new")
        new.write_text(token)
        new.rename(self.file)


def test_a_replaced_file_is_read_at_the_next_check(tmp_path: Path) -> None:
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
    for _ in range(3):
        with pytest.raises(SettingsError, match="no token today"):
            setup.token()
    assert setup.readings == 3, "a plugin that fails is not started per request"
    setup.failing = False
    setup.clock.advance(MIN_RENEWAL_SECONDS)
    assert setup.token() == "1"


@pytest.mark.parametrize(
    "life", [timedelta(seconds=-5), timedelta()], ids=["already expired", "expires at once"]
)
def test_a_new_login_that_is_expired_by_the_local_clock_is_used_until_rejected(
    tmp_path: Path, life: timedelta
) -> None:
    setup = Setup(tmp_path, life=life)
    setup.clock.advance(100 * CHECK_SECONDS)
    assert (setup.token(), setup.readings) == ("1", 1)


def test_each_request_without_a_login_has_its_own_error(tmp_path: Path) -> None:
    setup = Setup(tmp_path, life=LONG)
    setup.failing = True
    setup.clock.advance(LONG.total_seconds())
    with pytest.raises(SettingsError, match="no token today") as one:
        setup.token()
    with pytest.raises(SettingsError, match="no token today") as other:
        setup.token()
    assert one.value is not other.value, "one error would collect the tracebacks of all requests"


def test_a_missing_file_is_awaited(tmp_path: Path) -> None:
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
    assert setup.login.renew(rejected, 1.0).authorization == "Bearer 2"
    assert setup.login.renew(rejected, 1.0).authorization == "Bearer 2"
    assert setup.readings == 2, "a late request with the old login gets the new one"


def test_rejections_do_not_start_a_plugin_per_request(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    rejected = setup.login.current()
    for _ in range(5):
        assert setup.login.renew(rejected, 1.0) == rejected
    assert setup.readings == 2
    setup.clock.advance(MIN_RENEWAL_SECONDS)
    setup.login.renew(rejected, 1.0)
    assert setup.readings == 3


def test_a_failed_renewal_returns_the_rejected_login(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    setup.failing = True
    rejected = setup.login.current()
    with structlog.testing.capture_logs() as logs:
        assert setup.login.renew(rejected, 1.0) == rejected
    assert [entry["log_level"] for entry in logs] == ["warning"]


@pytest.mark.parametrize("reason", ["nearly over", "replaced"])
def test_a_slow_renewal_delays_no_request_with_a_valid_login(tmp_path: Path, reason: str) -> None:
    setup = Setup(tmp_path, life=LONG, runs_at_once=False)
    setup.replace("2")
    setup.clock.advance(90 if reason == "nearly over" else CHECK_SECONDS)
    before = setup.clock.monotonic()
    for _ in range(5):
        assert setup.login.current(4.0).authorization == "Bearer 1"
        setup.clock.advance(1)
    assert setup.clock.monotonic() == before + 5
    assert (len(setup.begun), setup.readings) == (1, 1)
    setup.begun.pop()()
    assert setup.token() == "2"
    assert setup.begun == []


def test_a_request_without_a_login_waits_within_its_own_limit(tmp_path: Path) -> None:
    setup = Setup(tmp_path, life=LONG, runs_at_once=False)
    setup.replace("2")
    setup.clock.advance(101)
    for _ in range(2):
        before = setup.clock.monotonic()
        with pytest.raises(SettingsError, match="has not ended in 4"):
            setup.login.current(4.0)
        assert setup.clock.monotonic() == before + 4.0
    assert len(setup.begun) == 1
    setup.begun.pop()()
    assert setup.login.current(4.0).authorization == "Bearer 2"


def test_a_refused_request_waits_within_its_own_limit(tmp_path: Path) -> None:
    setup = Setup(tmp_path, runs_at_once=False)
    setup.replace("2")
    rejected = setup.login.current()
    for _ in range(2):
        with pytest.raises(SettingsError, match="has not ended in 3"):
            setup.login.renew(rejected, 3.0)
    assert setup.login.current(3.0) == rejected, "other requests may still try it"
    (renewal,) = setup.begun
    renewal()
    assert setup.login.renew(rejected, 3.0).authorization == "Bearer 2"


def test_no_request_waits_after_a_reading_with_an_internal_error(tmp_path: Path) -> None:
    setup = Setup(tmp_path, runs_at_once=False)
    rejected = setup.login.current()
    with pytest.raises(SettingsError):
        setup.login.renew(rejected, 1.0)
    setup.file.unlink()
    with pytest.raises(FileNotFoundError):
        setup.begun.pop()()
    assert setup.login.renew(rejected, 1.0) == rejected


def test_a_renewal_that_cannot_be_started_does_not_block_the_next_one(tmp_path: Path) -> None:
    setup = Setup(tmp_path, life=LONG)
    threads_left = False

    def run(work: Callable[[], None]) -> None:
        if not threads_left:
            raise RuntimeError("can't start new thread")
        work()

    login = CredentialRefresher(setup.read(), setup.read, setup.clock, run=run)
    setup.clock.advance(LONG.total_seconds() - MIN_RENEWAL_SECONDS)
    assert login.current().authorization == "Bearer 1", "the old one is still valid"
    setup.clock.advance(2 * MIN_RENEWAL_SECONDS)
    with pytest.raises(SettingsError, match="could not be started"):
        login.current(PATIENCE_SECONDS)
    threads_left = True
    setup.replace("2")
    setup.clock.advance(MIN_RENEWAL_SECONDS)
    assert login.current(PATIENCE_SECONDS).authorization == "Bearer 2"


def test_a_renewal_has_its_own_thread() -> None:
    clock = VirtualClock(blocking=True)
    readers = []

    def read() -> Credentials:
        readers.append(threading.current_thread().name)
        return Credentials(Login(authorization="Bearer new"))

    old = Login(authorization="Bearer old")
    login = CredentialRefresher(Credentials(old), read, clock)
    assert login.renew(old, PATIENCE_SECONDS).authorization == "Bearer new"
    assert readers == ["login-renewal"]
