"""`imq landings`: export the passports of landings, and replace the key that signs them."""

import json
from datetime import datetime

import click

from bot.cli.console import RepositoryName, echo
from bot.cli.host import StartTime, account, find_repository, run_with_store, settings, with_database
from bot.passport.keys import PassportKeys, line_of, public_keys
from queue_engine.core.timing.clock import SystemClock
from queue_engine.store import Store

_AT_ONCE = 500


@click.group()
def landings() -> None:
    """Export the records of landings, and replace the key that signs them."""


@landings.command("export")
@click.option("--since", type=StartTime(), help="Only landings from then on: how long ago, or a date.")
@click.option("--repository", type=RepositoryName(), help="Only this repository.")
def export(since: datetime | None, repository: str | None) -> None:
    """Print the public keys, then a line of JSON for each landing, the first one first.

    IMQ may run meanwhile.
    """

    async def work(store: Store) -> None:
        async with store.reading() as tx:
            echo(json.dumps({"keys": public_keys(await tx.landing_keys.all())}))
            repository_id, last = None if repository is None else (await find_repository(tx, repository)).id, 0
        while True:
            # One page at a time: a million landings need no more memory than some.
            async with store.reading() as tx:
                page = await tx.landings.since(since, _AT_ONCE, repository_id=repository_id, after=last)
            for each in page:
                echo(json.dumps(line_of(each)))
            if len(page) < _AT_ONCE:
                return
            last = page[-1].id

    run_with_store(work)


@landings.command("rotate-key")
def rotate_key() -> None:
    """Sign landings with a new key from now on. What former keys signed can still be verified."""
    given = settings(quiet=True)
    keys = PassportKeys(given.github_private_key, given.secret_key, given.former_secret_key)
    now, by = SystemClock().now(), account()
    key = with_database(given, lambda store: store.write(lambda tx: keys.rotate(tx, now, by=by)))
    echo(f"Landings are signed by the key {key} from now on.")
