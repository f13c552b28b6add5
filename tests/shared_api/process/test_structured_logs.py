"""Tests of shared_api.process.structured_logs."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from shared_api.process.structured_logs import LogSettingError, configure_logs
from shared_api.testing.virtual_clock import VirtualClock

log = structlog.get_logger("early_bird")  # created at import, as in every module


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def configured(log_format: str = "json", level: str = "info") -> io.StringIO:
    stream = io.StringIO()
    configure_logs(log_format=log_format, level=level, clock=VirtualClock(), stream=stream)
    return stream


def lines_of(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_an_event_is_one_line_of_json_with_time_event_and_logger() -> None:
    stream = configured()
    log.info("unit dequeued", unit="a/b", missing={"cpu": 3})
    assert stream.getvalue() == (
        '{"time":"2026-11-01T10:00:00.000Z","level":"info","logger":"early_bird",'
        '"event":"unit dequeued","unit":"a/b","missing":{"cpu":3}}\n'
    )


def test_an_error_has_its_traceback_as_text() -> None:
    stream = configured()
    try:
        int("no number")
    except ValueError:
        log.exception("failed")
    assert "ValueError: invalid literal" in lines_of(stream)[0]["exception"]


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_a_traceback_shows_no_local_variables(log_format: str) -> None:
    stream = configured(log_format)

    def fail(token: str) -> int:
        return len(token) // 0

    try:
        fail("s3cr3t" * 2)
    except ZeroDivisionError:
        log.exception("failed")
    assert "ZeroDivisionError" in stream.getvalue()
    assert "s3cr3ts3cr3t" not in stream.getvalue()


def test_events_below_the_level_are_not_written() -> None:
    stream = configured(level="warning")
    log.info("quiet")
    logging.getLogger("some.library").info("quiet too")
    log.warning("loud")
    assert [line["event"] for line in lines_of(stream)] == ["loud"]


@pytest.mark.parametrize("value", [2**80, "\ud800", {1, 2}, {(1, 2): 3}, object(), b"\xff"])
def test_any_value_can_be_logged(value: object) -> None:
    stream = configured()
    log.info("absurd", value=value)
    assert lines_of(stream)[0]["event"] == "absurd"


def test_the_standard_librarys_loggers_write_into_the_same_stream() -> None:
    stream = configured()
    logging.getLogger("uvicorn.error").warning("port %d", 80)
    line = lines_of(stream)[0]
    assert (line["logger"], line["level"], line["event"]) == ("uvicorn.error", "warning", "port 80")


@pytest.mark.parametrize(("level", "want"), [(25, "info"), (50, "critical"), (99, "critical")])
def test_a_level_of_a_library_becomes_the_next_lower_one(level: int, want: str) -> None:
    stream = configured()
    logging.getLogger("odd").log(level, "hello")
    assert lines_of(stream)[0]["level"] == want


def test_a_record_with_wrong_arguments_is_harmless(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    stream = configured()
    logging.getLogger("bad").warning("%d", "x")
    log.info("goes on")
    assert [line["event"] for line in lines_of(stream)] == ["goes on"]


def test_libraries_that_log_every_request_are_quiet_at_any_level() -> None:
    stream = configured(level="debug")
    logging.getLogger("kubernetes.client.rest").debug("response body: secret")
    logging.getLogger("urllib3.connectionpool").debug("GET /")
    assert stream.getvalue() == ""


def test_the_console_format_is_readable() -> None:
    stream = configured("console")
    log.info("unit dequeued", unit="a/b")
    assert "unit dequeued" in stream.getvalue()
    assert "unit=a/b" in stream.getvalue()
    assert "\x1b" not in stream.getvalue(), "no colors without a terminal"


@pytest.mark.parametrize(
    ("log_format", "level", "want"),
    [("yaml", "info", "console, json"), ("json", "loud", "debug, info, warning, error")],
)
def test_a_wrong_setting_names_the_choices(log_format: str, level: str, want: str) -> None:
    with pytest.raises(LogSettingError, match=want):
        configured(log_format, level)
