"""Which connections are accepted and closed, and that a complete request is answered."""

from __future__ import annotations

import errno
import socket
import ssl
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final

import pytest
from structlog.testing import capture_logs

from shared_api.process import connection_gate
from shared_api.process.answer_desk import (
    PATIENCE_SECONDS,
    AnswerDesk,
    Lane,
    LaneRequest,
    limit_places,
)
from shared_api.process.connection_gate import (
    ANSWER_SECONDS,
    BODY_SECONDS,
    FULL_REST_SECONDS,
    HEAD_SECONDS,
    KEPT_SECONDS,
    MAX_BODIES,
    MAX_DISCARDED,
    ConnectionGate,
    Outcome,
)
from shared_api.process.http_exchange import MAX_HEAD_BYTES, Answer, Request, text_answer
from shared_api.process.http_head import read_every_header
from shared_api.process.loop_thread import LoopThread
from shared_api.testing.virtual_clock import VirtualClock
from tests.tls_files import client_context, server_context

GET = b"GET /it HTTP/1.1\r\nHost: localhost\r\n\r\n"
HALF = b"GET /it HTT"
LARGE = b"x" * 30_000_000


class Port:
    """A gate on a loopback port, which the test steps."""

    def __init__(self, *, places: int = 0, **more: Any) -> None:
        self.clock = VirtualClock()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.outcomes: Counter[Outcome] = Counter()
        self.asked: list[Request] = []
        self.events: list[str] = []
        self.body = b"hello"
        self.status = HTTPStatus.OK
        self.clients: list[socket.socket] = []
        options = {"limit": 4} | more
        self.desk = AnswerDesk(
            {"all": Lane(limit_places(places or 1, waiting=100), self.answer)},
            self.sort,
            lambda seconds: text_answer(HTTPStatus.TOO_MANY_REQUESTS, f"in {seconds} s"),
            self.clock,
        )
        self.gate = ConnectionGate(
            self.listener,
            self.desk if places else self.answer,
            clock=self.clock,
            observe=self.note,
            **options,
        )
        self.threads = self.gate.threads("it", lambda name, step: Sleeper(name, step, self.clock))

    def answer(self, request: Request) -> Answer:
        self.asked.append(request)
        return Answer(self.status, self.body)

    def sort(self, request: Request) -> LaneRequest:
        self.events.append("asked")
        return LaneRequest("all", "somebody", request)

    def note(self, outcome: Outcome) -> None:
        self.outcomes[outcome] += 1
        self.events.append(outcome.value)

    def connect(
        self, sends: bytes = b"", *, steps: int = 2, host: str = "127.0.0.1"
    ) -> socket.socket:
        where = self.listener.getsockname()
        client = socket.create_connection(where, timeout=5, source_address=(host, 0))
        self.clients.append(client)
        client.sendall(sends)
        self.step(steps)
        return client

    def step(self, times: int = 2) -> None:
        for _ in range(times):
            self.gate.step()

    def work(self) -> None:
        while self.desk.work():
            pass
        self.step()

    def close(self) -> None:
        for client in self.clients:
            client.close()
        self.gate.close()


class Sleeper(LoopThread):
    """A thread that is never started."""


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_gate, "REST_SECONDS", 0.02)


@contextmanager
def opened(**more: Any) -> Iterator[Port]:
    port = Port(**more)
    try:
        yield port
    finally:
        port.close()


@pytest.fixture
def port() -> Iterator[Port]:
    with opened() as port:
        yield port


def heard(client: socket.socket) -> bytes:
    """Return all data until the connection ends; b"" also for a reset."""
    parts = []
    try:
        while part := client.recv(65_536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def test_a_complete_request_is_answered_at_once(port: Port) -> None:
    client = port.connect(GET, steps=1)
    assert heard(client).endswith(b"\r\n\r\nhello")
    who = client.getsockname()
    assert port.asked == [Request("GET", "/it", {"host": "localhost"}, who)]
    assert port.outcomes == {Outcome.ANSWERED: 1}


def test_a_request_may_arrive_in_pieces(port: Port) -> None:
    client = port.connect()
    for number in range(len(GET)):
        client.sendall(GET[number : number + 1])
        port.step()
    assert heard(client).endswith(b"hello")


def test_data_after_the_request_is_not_answered(port: Port) -> None:
    """Pipelined requests: the answer announces the end of the connection."""
    client = port.connect(3 * GET)
    answer = heard(client)
    assert answer.count(b"HTTP/1.0 200 OK") == 1
    assert b"Connection: close" in answer


@pytest.mark.parametrize("sends", [b"", HALF, b"\x16\x03\x01"], ids=["nothing", "half", "TLS"])
def test_a_connection_without_a_request_in_time_is_closed(port: Port, sends: bytes) -> None:
    client = port.connect(sends)
    port.clock.advance(HEAD_SECONDS - 0.01)
    port.step()
    assert not port.outcomes
    port.clock.advance(0.01)
    port.step()
    assert heard(client) == b""
    assert port.outcomes == {Outcome.LATE: 1}


def test_single_bytes_do_not_extend_the_timeout(port: Port) -> None:
    client = port.connect(HALF)
    for _ in range(4):
        port.clock.advance(HEAD_SECONDS / 4)
        client.sendall(b"a")
        port.step()
    assert port.outcomes == {Outcome.LATE: 1}


def test_the_oldest_incomplete_request_is_closed_for_a_new_connection(port: Port) -> None:
    idle = [port.connect(HALF) for _ in range(4)]
    newcomer = port.connect(HALF)
    assert port.outcomes == {Outcome.EVICTED: 1}
    assert heard(idle[0]) == b""
    for client in (*idle[1:], newcomer):
        client.sendall(GET[len(HALF) :])
        port.step()
        assert heard(client).endswith(b"hello")


def test_places_are_taken_back_from_the_address_that_has_most() -> None:
    with opened(limit=8) as port:
        slow = port.connect(HALF)
        for _ in range(40):
            port.connect(HALF, host="127.0.0.2")
        assert port.outcomes == {Outcome.EVICTED: 33}
        slow.sendall(GET[len(HALF) :])
        port.step()
        assert heard(slow).endswith(b"hello"), "the oldest of all, and the only one of its address"


def test_a_connection_with_a_complete_request_is_answered_and_not_closed(port: Port) -> None:
    """Its request arrived after the last check, before the new connection."""
    idle = [port.connect() for _ in range(4)]
    idle[0].sendall(GET)
    newcomer = socket.create_connection(port.listener.getsockname(), timeout=5)
    port.clients.append(newcomer)
    port.gate._accept()  # noqa: SLF001 - a step would have seen the request before
    assert heard(idle[0]).endswith(b"hello")
    assert port.outcomes == {Outcome.ANSWERED: 1}


def test_a_probe_is_answered_despite_a_thousand_silent_connections(port: Port) -> None:
    for number in range(1000):
        port.connect(HALF if number % 2 else b"", steps=1)
        if number % 50 == 0:
            assert heard(port.connect(GET, steps=1)).endswith(b"hello")
    assert port.outcomes[Outcome.ANSWERED] == 20
    # Each of the twenty got a slot before its request was read.
    assert port.outcomes[Outcome.EVICTED] >= 1000 - 4


def test_a_client_that_does_not_read_a_large_answer_is_closed_in_time(port: Port) -> None:
    port.body = LARGE
    port.connect(GET)
    assert not port.outcomes
    port.clock.advance(ANSWER_SECONDS)
    port.step()
    assert port.outcomes == {Outcome.LATE: 1}


def test_a_client_that_does_not_read_is_closed_for_a_new_connection(port: Port) -> None:
    port.body = LARGE
    for _ in range(4):
        port.connect(GET)
    port.body = b"hello"
    assert heard(port.connect(GET)).endswith(b"hello")
    assert port.outcomes == {Outcome.EVICTED: 1, Outcome.ANSWERED: 1}


def test_a_large_answer_is_sent_as_it_is_read(port: Port) -> None:
    port.body = LARGE
    client = port.connect(GET)
    client.settimeout(0.01)
    got = 0
    while not port.outcomes:
        with_pause = client.recv(1_000_000)
        got += len(with_pause)
        port.step(1)
    client.settimeout(5)
    assert got + len(heard(client)) > len(LARGE)


def test_waiting_requests_are_limited_by_the_number_of_slots() -> None:
    with opened(places=1) as port:
        asked = [port.connect(GET) for _ in range(4)]
        refused = port.connect(GET)
        assert heard(refused) == b""
        assert port.outcomes == {Outcome.REFUSED: 1}
        port.work()
        assert [heard(client)[-5:] for client in asked] == [b"hello"] * 4


def test_connections_are_accepted_while_workers_make_answers() -> None:
    with opened(places=1) as port:
        first = port.connect(GET)
        second = port.connect(HALF)
        assert port.asked == []
        port.work()
        second.sendall(GET[len(HALF) :])
        port.step()
        port.work()
        assert [heard(client)[-5:] for client in (first, second)] == [b"hello"] * 2


def test_a_request_that_waits_too_long_is_refused() -> None:
    with opened(places=1) as port:
        first, second = port.connect(GET), port.connect(GET)
        port.clock.advance(PATIENCE_SECONDS)
        port.step(3)
        assert heard(second).endswith(b"in 1 s\n")
        port.work()
        assert heard(first).endswith(b"hello")


def test_an_answer_for_a_closed_connection_is_harmless() -> None:
    with opened(places=1) as port:
        left = port.connect(GET)
        left.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        left.close()
        port.work()
        stays = port.connect(GET)
        port.work()
        assert heard(stays).endswith(b"hello")


def test_an_answer_that_cannot_be_made_is_an_error_and_a_line_in_the_log() -> None:
    def broken(_request: Request) -> Answer:
        raise ValueError("oops")

    with opened() as port, capture_logs() as logs:
        port.gate._answer = broken  # noqa: SLF001 - as an application with an error in it
        assert heard(port.connect(GET)).startswith(b"HTTP/1.0 500 ")
        assert [each["log_level"] for each in logs] == ["error"]


@pytest.mark.parametrize(
    ("sends", "status"),
    [
        pytest.param(b"GET\r\n\r\n", b"400", id="no request"),
        pytest.param(b"GET / HTTP/2.0\r\n\r\n", b"505", id="another HTTP"),
        pytest.param(b"a" * (MAX_HEAD_BYTES + 1), b"431", id="a line above the limit"),
    ],
)
def test_invalid_requests_are_refused(port: Port, sends: bytes, status: bytes) -> None:
    assert heard(port.connect(sends)).split()[1:2] == [status]


def test_a_head_request_has_no_body(port: Port) -> None:
    answer = heard(port.connect(b"HEAD / HTTP/1.1\r\n\r\n"))
    assert answer.endswith(b"\r\n\r\n")
    assert b"Content-Length: 5\r\n" in answer


def test_without_a_descriptor_the_oldest_is_closed_and_the_port_pauses(port: Port) -> None:
    class Full:
        """A listener of a process that has no descriptor left."""

        def accept(self) -> tuple[socket.socket, Any]:
            raise OSError(errno.EMFILE, "Too many open files")

    port.connect(HALF)
    port.gate._listener = Full()  # type: ignore[assignment] # noqa: SLF001 - stands in for the process
    assert port.gate.step() == FULL_REST_SECONDS
    port.gate._listener = port.listener  # noqa: SLF001 - it has some again
    assert port.outcomes == {Outcome.EVICTED: 1}


@pytest.fixture
def secure() -> Iterator[Port]:
    context = server_context()
    with opened(tls=context) as port:
        yield port


class TlsClient:
    """A client that does its part of TLS between the steps of the gate."""

    def __init__(self, port: Port) -> None:
        self.port = port
        self.socket = port.connect()
        self.come, self.go = ssl.MemoryBIO(), ssl.MemoryBIO()
        trusted = client_context()
        self.tls = trusted.wrap_bio(self.come, self.go, server_hostname="localhost")

    def until_done(self, what: Any, *args: Any) -> Any:
        while True:
            try:
                done = what(*args)
            except ssl.SSLWantReadError:
                self.flush()
                self.come.write(self.socket.recv(65_536))
            else:
                self.flush()
                return done

    def flush(self) -> None:
        self.socket.sendall(self.go.read())
        self.port.step()


def test_the_tls_handshake_comes_before_the_request(secure: Port) -> None:
    client = TlsClient(secure)
    client.until_done(client.tls.do_handshake)
    client.until_done(client.tls.write, GET)
    answer = b""
    while not answer.endswith(b"hello"):
        answer += client.until_done(client.tls.read, 1000)
    assert secure.outcomes == {Outcome.ANSWERED: 1}


def test_a_connection_without_a_client_hello_is_counted_and_closed_first(secure: Port) -> None:
    silent = secure.connect()
    for _ in range(3):
        secure.connect()
    client = TlsClient(secure)
    assert secure.outcomes == {Outcome.EVICTED: 1}
    assert heard(silent) == b""
    client.until_done(client.tls.do_handshake)
    client.until_done(client.tls.write, GET)
    assert secure.outcomes[Outcome.ANSWERED] == 1


def test_a_handshake_without_a_request_times_out(secure: Port) -> None:
    client = TlsClient(secure)
    client.until_done(client.tls.do_handshake)
    secure.clock.advance(HEAD_SECONDS)
    secure.step()
    assert secure.outcomes == {Outcome.LATE: 1}


def test_plain_requests_to_a_tls_port_are_closed(secure: Port) -> None:
    assert b"hello" not in heard(secure.connect(GET))
    assert secure.outcomes == {Outcome.BROKEN: 1}


def test_closed_before_its_start_it_leaves_no_socket() -> None:
    port = Port()
    port.gate.end()
    assert port.listener.fileno() == -1
    port.close()


# --- bodies ---------------------------------------------------------------------------------------


def post(body: bytes, length: int | None = None) -> bytes:
    stated = len(body) if length is None else length
    return b"POST /it HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (stated, body)


@pytest.fixture
def taking() -> Iterator[Port]:
    """A port that takes bodies of up to 100 bytes."""
    with opened(max_body=100) as port:
        yield port


def test_a_body_may_arrive_in_pieces(taking: Port) -> None:
    client = taking.connect()
    sent = post(b"a\r\n\r\nb")
    for number in range(len(sent)):
        client.sendall(sent[number : number + 1])
        taking.step()
    assert heard(client).endswith(b"hello")
    assert [each.body for each in taking.asked] == [b"a\r\n\r\nb"]


def test_what_follows_a_body_does_not_belong_to_it(taking: Port) -> None:
    client = taking.connect(post(b"abc") + GET)
    assert heard(client).count(b"HTTP/1.0 200 OK") == 1
    assert [each.body for each in taking.asked] == [b"abc"]


def test_a_port_that_takes_no_bodies_answers_without_reading_one(port: Port) -> None:
    client = port.connect(post(b"", 50))
    assert heard(client).endswith(b"hello")
    assert [each.body for each in port.asked] == [b""]


def test_a_body_that_does_not_come_in_time_is_not_awaited(taking: Port) -> None:
    client = taking.connect(post(b"a", 50))
    taking.clock.advance(BODY_SECONDS - 0.01)
    client.sendall(b"b")
    taking.step()
    assert not taking.outcomes
    taking.clock.advance(0.01)
    taking.step()
    assert taking.outcomes == {Outcome.LATE: 1}
    assert not taking.asked


@pytest.mark.parametrize("length", [101, 2_000_000])
def test_a_body_that_is_too_long_is_refused_once_it_has_been_sent(
    taking: Port, length: int
) -> None:
    client = taking.connect(post(b"", length))
    for _ in range(0, length, 100_000):
        client.sendall(b"x" * min(100_000, length))
        taking.step(20)
    assert heard(client).startswith(b"HTTP/1.0 413 ")
    assert not taking.asked


def test_a_huge_body_is_refused_at_once(taking: Port) -> None:
    client = taking.connect(post(b"", MAX_DISCARDED + 1))
    assert heard(client).startswith(b"HTTP/1.0 413 ")


def test_an_invalid_length_is_refused(taking: Port) -> None:
    client = taking.connect(b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n")
    assert heard(client).startswith(b"HTTP/1.0 400 ")


def test_the_oldest_incomplete_body_makes_place_for_the_next() -> None:
    with opened(max_body=100, limit=100) as port:
        first = port.connect(post(b"a", 50))
        for _ in range(MAX_BODIES - 1):
            port.connect(post(b"a", 50))
        assert not port.outcomes
        assert heard(port.connect(post(b"whole"))).endswith(b"hello")
        assert port.outcomes == {Outcome.EVICTED: 1, Outcome.ANSWERED: 1}
        assert heard(first) == b""


def test_a_body_makes_place_of_the_address_that_sends_most() -> None:
    with opened(max_body=100, limit=100) as port:
        other = port.connect(post(b"a", 50), host="127.0.0.2")
        for _ in range(MAX_BODIES + 3):
            port.connect(post(b"a", 50))
        other.sendall(b"b" * 49)
        port.step()
        assert heard(other).endswith(b"hello")


def test_more_bodies_than_fit_into_memory_are_refused() -> None:
    """Complete ones are answered, and not given up."""
    with opened(max_body=100, limit=100, places=1) as port:
        for _ in range(MAX_BODIES):
            port.connect(post(b"whole"))
        assert heard(port.connect(post(b"late"))).startswith(b"HTTP/1.0 503 ")
        port.work()
        assert len(port.asked) == MAX_BODIES


# --- bodies in chunks -----------------------------------------------------------------------------

CHUNKED: Final = b"POST /it HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture
def chunks() -> Iterator[Port]:
    """A port that takes bodies of up to 100 bytes, in chunks as well."""
    with opened(max_body=100, takes_chunks=True) as port:
        yield port


def test_a_body_may_be_sent_in_chunks(chunks: Port) -> None:
    client = chunks.connect()
    sent = CHUNKED + b"3\r\nabc\r\n2;x=y\r\n\r\n\r\n0\r\nsum: 1\r\n\r\n"
    for number in range(len(sent)):
        client.sendall(sent[number : number + 1])
        chunks.step()
    assert heard(client).endswith(b"hello")
    assert [each.body for each in chunks.asked] == [b"abc\r\n"]
    assert heard(chunks.connect(post(b"whole"))).endswith(b"hello")


@pytest.mark.parametrize(
    ("sent", "want"),
    [
        pytest.param(CHUNKED + b"x\r\n", 400, id="no length"),
        pytest.param(CHUNKED + b"3\r\nabcd\r\n", 400, id="a chunk that is longer than it says"),
        pytest.param(CHUNKED + b"65\r\n" + b"x" * 101, 413, id="a chunk that is too long"),
        pytest.param(CHUNKED + b"1\r\nx\r\n" * 101, 413, id="too many chunks"),
        pytest.param(CHUNKED + b"1;%s\r\n" % (b"x" * 900), 413, id="much around them"),
        pytest.param(CHUNKED[:-2] + b"Content-Length: 1\r\n\r\n", 400, id="with a length as well"),
        pytest.param(CHUNKED.replace(b"chunked", b"gzip"), 400, id="in another way"),
    ],
)
def test_a_body_that_is_not_sent_well_is_refused(chunks: Port, sent: bytes, want: int) -> None:
    assert heard(chunks.connect(sent)).startswith(b"HTTP/1.0 %d " % want)
    assert not chunks.asked


def test_chunks_that_do_not_come_in_time_are_not_awaited(chunks: Port) -> None:
    chunks.connect(CHUNKED + b"3\r\na")
    chunks.clock.advance(BODY_SECONDS)
    chunks.step()
    assert (chunks.outcomes, chunks.asked) == ({Outcome.LATE: 1}, [])


def test_a_port_that_takes_no_chunks_asks_for_the_length(taking: Port) -> None:
    assert heard(taking.connect(CHUNKED)).startswith(b"HTTP/1.0 411 ")


# --- connections that stay open -------------------------------------------------------------------

IDLE_SECONDS: Final = 90.0


@pytest.fixture
def kept() -> Iterator[Port]:
    """A port that keeps connections open, and takes bodies."""
    with opened(
        read_head=read_every_header, idle_seconds=IDLE_SECONDS, max_body=100, takes_chunks=True
    ) as port:
        yield port


def answer_of(client: socket.socket) -> bytes:
    """Return what comes next, which one segment holds."""
    return client.recv(65_536)


def test_a_kept_connection_has_one_request_after_another(kept: Port) -> None:
    client = kept.connect()
    for sends in (GET, post(b"one"), HALF, GET[len(HALF) :]):
        client.sendall(sends)
        kept.step()
        if sends is not HALF:
            answer = answer_of(client)
            assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
            assert answer.endswith(b"Connection: keep-alive\r\n\r\nhello")
    assert [each.body for each in kept.asked] == [b"", b"one", b""]
    client.close()
    kept.step()
    assert kept.outcomes == {Outcome.ANSWERED: 1}


@pytest.mark.parametrize(
    "sends",
    [
        GET.replace(b"1.1", b"1.0"),
        GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"),
        GET + b"GET /more HTTP/1.1\r\n\r\n",
        GET.replace(b"\r\n\r\n", b"\r\nContent-Length: 5\r\n\r\n"),
        GET.replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n"),
        post(b"one") + GET,
        CHUNKED + b"3\r\none\r\n0\r\n\r\n",
        post(b"x" * 101),
        b"GET\r\n\r\n",
    ],
    ids=[
        "a client of HTTP/1.0",
        "one that says close",
        "a second request before the first answer",
        "a GET with a body, which nobody reads",
        "a GET with chunks, which nobody reads",
        "a request behind a body",
        "a body in chunks, whose end nobody looks for",
        "a body that is too long",
        "no request",
    ],
)
def test_where_the_next_request_begins_is_certain_or_the_connection_ends(
    kept: Port, sends: bytes
) -> None:
    client = kept.connect(sends)
    answer = heard(client)
    assert answer.startswith(b"HTTP/1.0 ")
    assert answer.count(b"HTTP/1.") == 1
    assert kept.outcomes == {Outcome.ANSWERED: 1}


def test_a_port_that_keeps_none_open_ends_each() -> None:
    with opened(read_head=read_every_header) as port:
        assert heard(port.connect(GET)).startswith(b"HTTP/1.0 ")


def test_an_idle_connection_is_closed_in_time(kept: Port) -> None:
    client = kept.connect(GET)
    kept.clock.advance(IDLE_SECONDS - 1)
    kept.step()
    assert not kept.outcomes
    kept.clock.advance(1)
    kept.step()
    assert heard(client).endswith(b"hello")
    assert kept.outcomes == {Outcome.ANSWERED: 1}


def test_the_next_request_has_the_time_of_the_first(kept: Port) -> None:
    client = kept.connect(GET)
    kept.clock.advance(IDLE_SECONDS / 2)
    client.sendall(HALF)
    kept.step()
    kept.clock.advance(HEAD_SECONDS)
    kept.step()
    assert kept.outcomes == {Outcome.LATE: 1}


def test_an_old_connection_is_closed_after_its_answer(kept: Port) -> None:
    client = kept.connect()
    for _ in range(int(KEPT_SECONDS // (IDLE_SECONDS / 2)) + 1):
        client.sendall(GET)
        kept.step()
        assert answer_of(client).startswith(b"HTTP/1.1 ")
        kept.clock.advance(IDLE_SECONDS / 2)
    client.sendall(GET)
    kept.step()
    assert heard(client).startswith(b"HTTP/1.0 ")


def test_an_idle_connection_makes_place_before_one_that_is_read(kept: Port) -> None:
    read = [kept.connect(HALF), kept.connect(HALF)]
    idle = [kept.connect(GET), kept.connect(GET)]
    assert answer_of(kept.connect(GET, host="127.0.0.2")).endswith(b"hello")
    assert heard(idle[0]).endswith(b"hello")
    assert kept.outcomes == {Outcome.ANSWERED: 1}
    for client in read:
        client.sendall(GET[len(HALF) :])
        kept.step()
        assert answer_of(client).endswith(b"hello")


def test_a_request_that_has_arrived_keeps_an_idle_connection_from_being_closed(kept: Port) -> None:
    clients = [kept.connect(GET) for _ in range(4)]
    assert all(answer_of(each) for each in clients)
    clients[0].sendall(GET)
    kept.connect(GET)
    assert answer_of(clients[0]).endswith(b"hello")


def test_answers_are_sent_before_the_events_of_others() -> None:
    with opened(places=1, limit=50) as port:
        first = port.connect(GET)
        behind = [port.connect(HALF) for _ in range(20)]
        port.events.clear()
        for client in behind:
            client.sendall(GET[len(HALF) :])
        port.desk.work()
        port.gate.step()
        assert port.events == ["answered", *["asked"] * 20]
        assert heard(first).endswith(b"hello")


UPGRADE = b"GET / HTTP/1.1\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"


def test_what_follows_a_body_in_chunks_fails_its_connection_alone(chunks: Port) -> None:
    whole = CHUNKED + b"1\r\na\r\n0\r\n\r\n"
    bad = chunks.connect(whole + UPGRADE)
    assert heard(bad).startswith(b"HTTP/1.0 400 ")
    good = chunks.connect(whole + post(b"bcde"))
    assert heard(good).endswith(b"hello")
    assert [each.body for each in chunks.asked] == [b"a"]


def test_a_request_at_which_the_code_fails_ends_its_connection_and_not_the_port() -> None:
    def fail(head: bytes, client: Any) -> Request:
        if b"bad" in head:
            raise RecursionError
        return read_every_header(head, client)

    with opened(read_head=fail) as port:
        with capture_logs() as logs:
            assert heard(port.connect(GET.replace(b"/it", b"/bad"))) == b""
        assert [each["log_level"] for each in logs] == ["error"]
        assert heard(port.connect(GET)).endswith(b"hello")
        assert port.outcomes == {Outcome.BROKEN: 1, Outcome.ANSWERED: 1}


def test_a_flood_of_silent_connections_closes_no_idle_one_of_another_address() -> None:
    with opened(read_head=read_every_header, idle_seconds=IDLE_SECONDS, limit=5) as port:
        kept = [port.connect(GET) for _ in range(2)]
        assert all(answer_of(each).endswith(b"hello") for each in kept)
        for _ in range(20):
            port.connect(host="127.0.0.2")
        for client in kept:
            client.sendall(GET)
            port.step()
            assert answer_of(client).endswith(b"hello")


# ------------------------------------------------------------------------ refusals that are put off


@contextmanager
def refusing(**more: Any) -> Iterator[Port]:
    with opened(places=1, refusal_seconds=1.0, **more) as port:
        port.status = HTTPStatus.TOO_MANY_REQUESTS
        yield port


def is_open(client: socket.socket) -> bool:
    """Return whether nothing has come on a connection yet."""
    client.settimeout(0)
    try:
        return not client.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    finally:
        client.settimeout(5)


def test_a_refusal_is_sent_later() -> None:
    with refusing() as port:
        refused = port.connect(GET)
        port.work()
        port.clock.advance(0.9)
        port.step()
        assert is_open(refused)
        port.clock.advance(0.2)
        port.step()
        assert b"429" in heard(refused)
        assert port.outcomes == {Outcome.ANSWERED: 1}


def test_refusals_are_sent_one_by_one() -> None:
    with refusing(limit=400) as port:
        clients = [port.connect(GET, steps=1) for _ in range(300)]
        port.work()
        for seconds, want in [(1.0, 1), (1.0, 21), (7.9, 179)]:
            port.clock.advance(seconds)
            port.step()
            assert port.outcomes[Outcome.ANSWERED] == want
        port.clock.advance(0.1)
        port.step()
        assert port.outcomes[Outcome.ANSWERED] == len(clients), "none is put off for longer"


def test_refusals_of_another_address_wait_for_none_of_them() -> None:
    with refusing(limit=400) as port:
        for _ in range(100):
            port.connect(GET, steps=1)
        port.work()
        other = port.connect(GET, host="127.0.0.2")
        port.work()
        port.clock.advance(1.0)
        port.step()
        assert b"429" in heard(other)
        assert port.outcomes[Outcome.ANSWERED] == 2


def test_other_answers_are_sent_at_once_beside_it() -> None:
    with refusing() as port:
        refused = port.connect(GET)
        port.work()
        port.status = HTTPStatus.OK
        answered = port.connect(GET)
        port.work()
        assert heard(answered).endswith(b"hello")
        assert is_open(refused)


def test_the_oldest_refusal_is_sent_when_its_place_is_needed() -> None:
    with refusing(limit=3) as port:
        refused = [port.connect(GET) for _ in range(2)]
        port.work()
        half = port.connect(HALF)
        newcomer = port.connect(HALF)
        assert b"429" in heard(refused[0])
        assert is_open(refused[1])
        for each in (half, newcomer):
            each.sendall(GET[len(HALF) :])
        port.work()
        assert port.outcomes == {Outcome.ANSWERED: 1}, "nobody else has lost its place"


def test_a_client_that_leaves_before_its_refusal_is_harmless() -> None:
    with refusing() as port:
        port.connect(GET).close()
        port.work()
        port.clock.advance(1.1)
        port.step()
        assert port.outcomes.total() == 1
