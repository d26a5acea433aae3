"""`imq` as an operator types it, on a database of the test's own."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from click.testing import CliRunner, Result

from bot.cli import main
from queue_engine.core.database.database import Database
from queue_engine.store import Store, Transaction

T = TypeVar("T")


@dataclass(frozen=True)
class Imq:
    """The command line with the settings of one installation."""

    environ: dict[str, str | None]

    def __call__(self, *arguments: str) -> Result:
        """Run a command; whatever it raises that is not for the operator is raised here."""
        return CliRunner(env=self.environ).invoke(main.main, list(arguments), catch_exceptions=False)

    def within(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        """Look at the database, or change it, beside the commands."""

        async def run() -> T:
            database = Database(self.environ["DATABASE_URL"] or "")
            try:
                async with Store(database).transaction() as tx:
                    return await work(tx)
            finally:
                await database.close()

        return asyncio.run(run())
