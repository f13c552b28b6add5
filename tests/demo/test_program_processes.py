"""Ports and counters; that processes come and go is tests/scenarios/test_demo_once.py."""

from __future__ import annotations

import socket

from tests.demo.program_processes import LOOPBACK, count_writes, free_port

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


def test_the_preferred_port_is_taken_while_it_is_free() -> None:
    port = free_port()
    assert free_port(port) == port


def test_another_port_is_taken_where_it_is_not() -> None:
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
        assert free_port(port) != port
