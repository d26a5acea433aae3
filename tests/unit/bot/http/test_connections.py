"""Whom the server drops when its clients are too many, or hold too much; and how many a process can serve."""

import asyncio
import errno
import resource
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from unittest import mock

import pytest
from structlog.testing import capture_logs

from bot.http.connections import Connections, Limits, file_limit, limits_for
from bot.http.site import AcceptErrors
from bot.logs.configure import LogThrottle
from tests.support.real_time import LIMIT
from tests.unit.bot.conftest import ManualClock


@dataclass(eq=False)
class Peer:
    """A connection as `Connections` knows it."""

    all: Connections
    held: int = 0
    waits: bool = True
    dropped: bool = field(default=False, init=False)

    def drop(self) -> None:
        self.dropped = True
        self.all.released(self.held)
        self.held = 0
        self.all.closed(self)

    def send(self, size: int) -> None:
        self.held += size
        self.all.received(size)


def _open(connections: Connections, count: int, *, waits: bool = True) -> list[Peer]:
    peers = [Peer(connections, waits=waits) for _ in range(count)]
    for peer in peers:
        connections.opened(peer)
    return peers


def test_connections_too_many_drop_the_one_that_waits_longest() -> None:
    """A connection that progressed a moment ago is not dropped."""
    connections = Connections(Limits(connections=3))
    first, second, third = _open(connections, 3)
    connections.progressed(first)
    third.waits = False
    _open(connections, 1)
    assert [peer.dropped for peer in (first, second, third)] == [False, True, False]
    _open(connections, 1)
    assert [peer.dropped for peer in (first, second, third)] == [True, True, False]
    assert len(connections) == 3


def test_connection_that_was_dropped_before_its_answer_was_taken_is_counted_no_more() -> None:
    """The task that served the connection ends later, and still reports progress."""
    connections = Connections(Limits(connections=2))
    (peer,) = _open(connections, 1)
    peer.drop()
    connections.progressed(peer)
    assert len(connections) == 0


def test_connections_all_at_work_drop_the_new_one() -> None:
    """What was begun is finished."""
    connections = Connections(Limits(connections=2))
    busy = _open(connections, 2, waits=False)
    new = Peer(connections, waits=False)
    connections.opened(new)
    assert (new.dropped, [peer.dropped for peer in busy]) == (True, [False, False])


def test_bytes_too_many_drop_of_those_with_their_share_the_one_that_waits_longest() -> None:
    """Small requests pass beside any number of large ones, and one sent in one go beside those that do not end."""
    connections = Connections(Limits(connections=10, held_bytes=1000, unfinished_bytes=1000))
    small, large, larger, done = _open(connections, 4)
    done.send(200)
    done.waits = False
    large.send(350)
    larger.send(400)
    small.send(50)
    assert not any(peer.dropped for peer in (large, larger, small, done))
    small.send(50)
    assert [peer.dropped for peer in (large, larger, small, done)] == [True, False, False, False]
    assert connections._held == 700


def test_unfinished_requests_have_a_budget_of_their_own_beside_the_largest() -> None:
    """P5: what is not verified is bounded; a delivery of any size still arrives, and served ones do not count."""
    connections = Connections(Limits(connections=10, held_bytes=1000, unfinished_bytes=100))
    largest, first, second, done = _open(connections, 4)
    largest.send(500)
    first.send(60)
    done.waits = False
    done.send(90)
    second.send(40)
    assert not any(peer.dropped for peer in (largest, first, second, done))
    second.send(1)
    assert [peer.dropped for peer in (largest, first, second, done)] == [True, False, False, False]


def test_bytes_of_requests_at_work_are_kept() -> None:
    """A request that is being served has been sent; only senders of more exceed the bound."""
    connections = Connections(Limits(connections=10, held_bytes=100, unfinished_bytes=100))
    busy, idle = _open(connections, 2)
    busy.send(100)
    busy.waits = False
    (new,) = _open(connections, 1)
    new.send(1)
    assert (busy.dropped, new.dropped, connections._held) == (False, True, 100)
    busy.send(1)
    assert not idle.dropped, "it holds nothing, so that to drop it would gain nothing"


@pytest.mark.parametrize("files", [64, 128, 256, 1024, 20_000, 2**31])
def test_limits_leave_files_for_the_database_and_github(files: int) -> None:
    """Even if as many connections as can be accepted at once come on top of all that are open."""
    limits = limits_for(files)
    assert files - limits.connections - limits.accepted_at_once >= files * 3 / 8
    assert limits.connections >= min(files // 2, 512)


@pytest.mark.parametrize(
    ("given", "limit", "raised"),
    [
        ((256, resource.RLIM_INFINITY), 1024, (1024, resource.RLIM_INFINITY)),
        ((256, 512), 512, (512, 512)),
        ((256, 256), 256, None),
        ((4096, 4096), 4096, None),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), 2**31, None),
    ],
)
def test_file_limit_is_raised_where_the_system_lets_it(
    given: tuple[int, int], limit: int, raised: tuple[int, int] | None
) -> None:
    """A platform's soft limit of 256 is not meant for servers; its hard limit is obeyed."""
    with mock.patch("resource.getrlimit", return_value=given), mock.patch("resource.setrlimit") as set_to:
        assert file_limit() == limit
    assert [call.args[1] for call in set_to.call_args_list] == ([] if raised is None else [raised])


def test_repeats_are_written_once_a_minute_with_their_count(clock: ManualClock) -> None:
    """Each text for itself; and a clock that was set back silences nothing."""
    repeats = LogThrottle(clock)
    assert [repeats.count("a"), repeats.count("a"), repeats.count("b"), repeats.count("a")] == [0, None, 0, None]
    clock.instant += timedelta(minutes=1)
    assert [repeats.count("a"), repeats.count("a")] == [2, None]
    clock.instant -= timedelta(hours=1)
    assert repeats.count("a") == 1


async def test_accept_errors_are_logged_once_a_minute(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    """asyncio reports them a hundred times a second, each with a traceback: 213 MB of log. Others pass unchanged."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(AcceptErrors(clock))
    full = OSError(errno.EMFILE, "Too many open files")
    with capture_logs() as lines:
        for _ in range(3):
            for _ in range(100):
                loop.call_exception_handler({"message": "socket.accept() out of system resource", "exception": full})
            clock.instant += timedelta(seconds=30)
        loop.call_exception_handler({"message": "something else", "exception": ValueError("x")})
    assert [(line["event"], line["repeats"]) for line in lines] == [
        ("connections_not_accepted", 0),
        ("connections_not_accepted", 199),
    ]
    assert [record.message.partition("\n")[0] for record in caplog.records] == ["something else"]


async def test_accept_errors_are_recognized_by_the_message_of_asyncio(clock: ManualClock) -> None:
    """The event loop itself calls the handler with them when no file is left."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(AcceptErrors(clock))
    server = await asyncio.start_server(lambda _r, _w: None, "127.0.0.1", 0)
    logged = asyncio.Event()

    def notice(_logger: Any, _method: str, line: Any) -> Any:
        logged.set()
        return line

    full = mock.patch("socket.socket.accept", side_effect=OSError(errno.EMFILE, "no files"))
    with full, capture_logs(processors=[notice]) as lines:
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        async with asyncio.timeout(LIMIT):
            await logged.wait()
    writer.close()
    server.close()
    assert [line["event"] for line in lines] == ["connections_not_accepted"]
