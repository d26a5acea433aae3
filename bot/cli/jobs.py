"""`imq jobs`: list, show, retry and discard dead letters."""

import json
from collections import Counter

import click

from bot.cli.console import columns, echo, instant
from bot.cli.host import account, run_with_store
from bot.logs.configure import mask
from queue_engine.control import dead_letter_retries
from queue_engine.core.jobs.dead_letters import DeadLetter
from queue_engine.core.timing.clock import SystemClock
from queue_engine.handlers.inbox import RETRIED_JOB
from queue_engine.store import Store

_MAX_ERROR = 60


@click.group()
def jobs() -> None:
    """List, retry or discard dead letters: jobs that failed for good."""


@jobs.command("list")
@click.option("--type", "job_type", help="Only jobs of this type.")
@click.option("--retryable/--not-retryable", default=None, help="Only those that a retry may fix, or only the others.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="Show at most this many.")
def list_jobs(job_type: str | None, retryable: bool | None, limit: int) -> None:
    """Show dead letters, the latest first."""

    async def work(store: Store) -> tuple[tuple[DeadLetter, ...], int]:
        async with store.reading() as tx:
            letters = await tx.dead_letters.list(limit, job_type=job_type, retryable=retryable)
            return letters, await tx.dead_letters.count(job_type=job_type, retryable=retryable)

    letters, count = run_with_store(work)
    if not letters:
        echo("No dead letters.")
        return
    rows = (
        (
            each.id,
            each.job_type,
            instant(each.failed_at),
            "yes" if each.retryable else "no",
            _shortened(mask(each.error_message)),
        )
        for each in letters
    )
    echo(columns(("ID", "TYPE", "FAILED", "RETRYABLE", "ERROR"), rows))
    if count > len(letters):
        echo(f"{count - len(letters)} more; raise --limit to see them.", err=True)


@jobs.command()
@click.argument("job_id", metavar="ID")
def show(job_id: str) -> None:
    """Show all of one dead letter."""
    letter = run_with_store(lambda store: store.read(lambda tx: tx.dead_letters.get(job_id)))
    if letter is None:
        raise _unknown(job_id)
    for name, value in (
        ("id", letter.id),
        ("type", letter.job_type),
        ("process", letter.process_id),
        ("enqueued", instant(letter.created_at)),
        ("failed", instant(letter.failed_at)),
        ("attempts", str(letter.attempts)),
        ("retryable", "yes" if letter.retryable else "no"),
        ("trace", letter.trace or "-"),
        ("error", mask(letter.error_message)),
        ("payload", mask(json.dumps(letter.payload, indent=2, ensure_ascii=False))),
    ):
        echo(f"{name + ':':<11}{value}")


@jobs.command()
@click.argument("job_id", metavar="ID", required=False)
@click.option("--all", "every", is_flag=True, help="Retry all that are retryable.")
def retry(job_id: str | None, every: bool) -> None:
    """Enqueue one dead letter again, or all that are retryable."""
    if (job_id is None) != every:
        raise click.UsageError("Give one ID or --all.")

    async def work(store: Store) -> int:
        now = SystemClock().now()
        async with store.transaction() as tx:
            letters = tx.dead_letters
            if job_id is None:
                chosen = await letters.list(await letters.count(), retryable=True)
            else:
                chosen = tuple(filter(None, [await letters.get(job_id)]))
            if again := await dead_letter_retries.retry(tx, job_id, _actor(), now):
                kinds = Counter(letter.job_type for letter in chosen)
                await tx.jobs.enqueue(kind=RETRIED_JOB, request=kinds, process_id=RETRIED_JOB, now=now)
            return again

    again = run_with_store(work)
    if job_id is not None and not again:
        raise _unknown(job_id)
    echo(f"Enqueued again: {again}")


@jobs.command()
@click.argument("job_id", metavar="ID")
def discard(job_id: str) -> None:
    """Delete a dead letter for good."""
    actor, now = _actor(), SystemClock().now()
    if not run_with_store(lambda store: store.write(lambda tx: dead_letter_retries.discard(tx, job_id, actor, now))):
        raise _unknown(job_id)
    echo(f"Discarded {job_id}.")


def _actor() -> dead_letter_retries.Actor:
    return dead_letter_retries.Actor(account(), "command_line")


def _unknown(job_id: str) -> click.ClickException:
    return click.ClickException(f"No dead letter has the id {job_id}. To list all, run `imq jobs list`.")


def _shortened(error: str) -> str:
    line = error.partition("\n")[0]
    return line if len(line) <= _MAX_ERROR else f"{line[: _MAX_ERROR - 3]}..."
