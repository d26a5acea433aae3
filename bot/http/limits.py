"""Limits of connections, seconds and bytes for the server's clients."""

import resource
from dataclasses import dataclass
from datetime import timedelta

_FILES = 1024
"""Open files that a process requests from the system, if its limit is lower."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of all clients together, and of each client."""

    connections: int = 512
    accepted_at_once: int = 128
    """Connections that are accepted at once."""
    held_bytes: int = 64 * 1024 * 1024
    """Bytes of requests in memory, over all connections. Two deliveries of the largest size and much else fit in."""
    unfinished_bytes: int = 8 * 1024 * 1024
    """The part of them that requests may have which are not complete, and so not verified. One of these requests,
    the largest, does not count: with all of them a process stays below the smallest limit that our manifests set."""
    header: timedelta = timedelta(seconds=10)
    """From the connection, or the first byte of a later request, to the end of its header (as Go's ReadHeaderTimeout
    and hyper's header_read_timeout count it)."""
    idle: timedelta = timedelta(seconds=75)
    """Between two requests. Longer than proxies keep a connection (nginx and AWS: 60 s), so that it is they who close
    it, never this server while a request is on its way."""
    answer: timedelta = timedelta(seconds=30)
    """For a client to take its answer."""
    lingering: timedelta = timedelta(seconds=2)
    """How long the rest of a refused body is read and thrown away, so that its sender sees the answer."""


def limits_for(files: int) -> Limits:
    """Limits for a process that may have this many files open.

    At least three eighths are left for the database (19 files of SQLite, 6 connections to PostgreSQL), calls to
    GitHub (8 at once for each installation) and the process itself (about 20).
    """
    usual = Limits()
    return Limits(
        connections=min(usual.connections, files // 2), accepted_at_once=min(usual.accepted_at_once, files // 8)
    )


def file_limit() -> int:
    """How many files this process may have open; raised first to what a server needs, where the system lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, hard = _number(soft), _number(hard)
    if soft < _FILES and soft < hard:
        soft = min(_FILES, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    return soft


def _number(limit: int) -> int:
    return 2**31 if limit == resource.RLIM_INFINITY else limit
