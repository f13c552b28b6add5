"""Ports and counters; tests/scenarios/test_demo_once.py covers the processes."""

from __future__ import annotations

import pytest

from tests.demo.program_processes import count_writes, find_port

METRICS = """\
# HELP rest_client_requests_total Requests by status code
# TYPE rest_client_requests_total counter
rest_client_requests_total{code="200",host="h:1",method="GET"} 40.0
rest_client_requests_total{code="200",host="h:1",method="PATCH"} 30.0
rest_client_requests_total{code="409",host="h:1",method="PATCH"} 2.0
rest_client_requests_total{code="201",host="h:1",method="POST"} 1e+01
rest_client_requests_created{code="201",host="h:1",method="POST"} 1.7e+09
process_cpu_seconds_total 5.0
"""


def test_only_requests_that_may_write_are_counted() -> None:
    assert count_writes(METRICS) == 42


LOG = """\
12:00:00.819Z [info     ] listening [wiring] address=[::1]:4363 flag=--debug-address port=4363
12:00:00.820Z [info     ] listening [probes] address=:3800 flag=--health-address port=3800
12:00:00.834Z [info     ] Started server process [30540] [uvicorn.error]
12:00:00.836Z [info     ] listening [probes] address=127.0.0.1:360 flag=--metrics-addr"""


@pytest.mark.parametrize(
    ("flag", "port"),
    [("--debug-address", 4363), ("--health-address", 3800), ("--metrics-address", 0)],
)
def test_ports_are_read_from_complete_lines_of_the_log(flag: str, port: int) -> None:
    assert find_port(LOG, flag) == port
