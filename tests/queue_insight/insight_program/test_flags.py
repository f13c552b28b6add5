"""The command line of the insight program."""

from __future__ import annotations

from pathlib import Path

import pytest

from queue_insight.forecast.no_forecast import LEAST_RUNS
from queue_insight.insight_program.flags import MAX_ADDRESS, parse_insight_flags
from shared_api.program_flags import FlagError


def test_folders_are_read(tmp_path: Path) -> None:
    got = parse_insight_flags([f"--socket-dir={tmp_path}"])
    assert (got.socket_folder, got.record_folder) == (tmp_path, None)
    got = parse_insight_flags(["--socket-dir", str(tmp_path), "--record-dir", str(tmp_path)])
    assert got.record_folder == tmp_path


def test_ports_are_free_beside_the_scheduler(tmp_path: Path) -> None:
    process = parse_insight_flags([f"--socket-dir={tmp_path}"]).process
    assert (process.health_address, process.metrics_address) == (":8084", ":8085")


@pytest.mark.parametrize(("text", "want"), [("", 60.0), ("10s", 10.0), ("2m", 120.0), ("5", 5.0)])
def test_how_often_forecasts_are_made(tmp_path: Path, text: str, want: float) -> None:
    more = [f"--forecast-interval={text}"] if text else []
    assert parse_insight_flags([f"--socket-dir={tmp_path}", *more]).forecast_seconds == want


@pytest.mark.parametrize("text", ["0", "soon", "-1s", ""])
def test_an_interval_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(FlagError, match="--forecast-interval"):
        parse_insight_flags([f"--socket-dir={tmp_path}", f"--forecast-interval={text}"])


@pytest.mark.parametrize(("text", "want"), [("", LEAST_RUNS), ("0", 0), ("12", 12)])
def test_from_how_many_runs_on_times_are_told(tmp_path: Path, text: str, want: int) -> None:
    more = [f"--forecast-least-runs={text}"] if text else []
    assert parse_insight_flags([f"--socket-dir={tmp_path}", *more]).least_runs == want


@pytest.mark.parametrize("text", ["", "-1", "few", "1.5", "\u0663", "9" * 10])
def test_a_number_of_runs_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(FlagError, match=r"--forecast-least-runs .* is no whole number"):
        parse_insight_flags([f"--socket-dir={tmp_path}", f"--forecast-least-runs={text}"])


@pytest.mark.parametrize(
    ("text", "want"), [("", 2 << 30), ("512Mi", 512 << 20), ("1G", 10**9), ("4096", 4096)]
)
def test_how_large_the_record_may_be(tmp_path: Path, text: str, want: int) -> None:
    more = [f"--record-limit={text}"] if text else []
    assert parse_insight_flags([f"--socket-dir={tmp_path}", *more]).record_bytes == want


@pytest.mark.parametrize("text", ["", "0", "-1Gi", "much", "1GiB"])
def test_a_size_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(FlagError, match="--record-limit"):
        parse_insight_flags([f"--socket-dir={tmp_path}", f"--record-limit={text}"])


@pytest.mark.parametrize("flag", ["--socket-dir", "--record-dir"])
def test_a_folder_that_is_missing_is_told(tmp_path: Path, flag: str) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(FlagError, match=f"{flag} .*missing' is no folder"):
        parse_insight_flags([f"--socket-dir={tmp_path}", f"{flag}={missing}"])


def test_the_aggregated_api_is_off_by_default(tmp_path: Path) -> None:
    assert parse_insight_flags([f"--socket-dir={tmp_path}"]).visibility is None


@pytest.mark.parametrize(("text", "port"), [("queue/insight", 443), ("queue/insight:8443", 8443)])
def test_where_the_aggregated_api_is_served(tmp_path: Path, text: str, port: int) -> None:
    service = f"--visibility-service={text}"
    got = parse_insight_flags(
        [f"--socket-dir={tmp_path}", "--visibility-address=:8443", service, "--context=c"]
    ).visibility
    assert got is not None
    assert (got.address, got.kubeconfig, got.context) == (":8443", None, "c")
    assert got.service.as_written() == {"namespace": "queue", "name": "insight", "port": port}


@pytest.mark.parametrize("text", ["", "insight", "queue/insight:x", "a/b/c"])
def test_a_service_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    more = ["--visibility-address=:8443", f"--visibility-service={text}"]
    with pytest.raises(FlagError, match=r"--visibility-service .* is neither"):
        parse_insight_flags([f"--socket-dir={tmp_path}", *more])


@pytest.mark.parametrize("text", ["10.0.0.1/8", "here", "10.0.0.0/8,,::/129"])
def test_a_trusted_proxy_that_is_no_network_is_told(tmp_path: Path, text: str) -> None:
    flags = [f"--socket-dir={tmp_path}", "--page-address=:0", f"--page-trusted-proxies={text}"]
    with pytest.raises(FlagError, match=f"--page-trusted-proxies: .*{text[-6:]}"):
        parse_insight_flags(flags)


@pytest.mark.parametrize(
    "address",
    ["http://localhost:3000", "https://[fd00::1]/d/x?var-cluster=a&from=now-7d#b", ""],
)
def test_dashboards_are_linked_to(tmp_path: Path, address: str) -> None:
    flags = [f"--socket-dir={tmp_path}", "--page-address=:0", f"--page-dashboards={address}"]
    got = parse_insight_flags(flags).page
    assert got is not None
    assert got.dashboards == address


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)",
        "JavaScript://x/%0aalert(1)",
        "ftp://host/",
        "//host/",
        "/d/x",
        "https://",
        "https://user:secret@host/",
        "https://host@elsewhere/",
        "https://host /",
        "https://host/\n",
        "https://host/" + "x" * MAX_ADDRESS,
    ],
)
def test_an_address_that_no_page_may_link_to_is_refused(tmp_path: Path, address: str) -> None:
    flags = [f"--socket-dir={tmp_path}", "--page-address=:0", f"--page-dashboards={address}"]
    with pytest.raises(FlagError, match="--page-dashboards must be an address"):
        parse_insight_flags(flags)
