"""`imq export --audit-log`: what an operator did on the command line, and what is exported of it."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from bot.cli import host
from bot.process.sqlite_file import exclusive
from queue_engine.core.timing.clock import SystemClock
from queue_engine.domain.model import Pause, TimelineEvent
from queue_engine.domain.reasons import Reason
from queue_engine.store import Transaction
from tests.store.examples import NOW, OTHER, REPOSITORY, queue
from tests.unit.bot.cli.imq import Imq
from tests.unit.bot.cli.test_jobs import add_dead_letters, named


@pytest.fixture(autouse=True)
def account(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operating system's name of who gives the commands."""
    monkeypatch.setattr("getpass.getuser", lambda: "olga")


def exported(imq: Imq, *more: str) -> list[dict[str, Any]]:
    done = imq("export", "--audit-log", *more)
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines() if line]


def summed_up(imq: Imq) -> list[tuple[str, str | None, str | None, str | None]]:
    found = exported(imq)
    return [(each["action"], each["by"], each["via"], each["subject"]) for each in found]


OLGA = ("olga", "command_line")


def test_tokens_that_an_operator_creates_and_revokes_are_exported_without_their_secret(imq: Imq) -> None:
    """By whom, with which rights; a refused command leaves nothing."""
    secret = imq("token", "create", "on-call", "--operator", "--read", "--expires", "9000d").stdout.strip()
    assert imq("token", "create", "on-call", "--operator").exit_code == 1
    assert imq("token", "revoke", "on-call").exit_code == 0
    assert imq("token", "revoke", "on-call").exit_code == 1
    assert summed_up(imq) == [("token_created", *OLGA, "on-call"), ("token_revoked", *OLGA, "on-call")]
    (created, _) = exported(imq)
    assert created["data"].pop("expires_at") is not None
    assert created["data"] == {
        "person": None,
        "person_id": None,
        "operator": True,
        "access": "read",
        "installation_id": None,
        "repositories": None,
    }
    assert secret not in imq("export", "--audit-log").stdout


def test_dead_letters_that_an_operator_retries_and_discards_are_exported(imq: Imq) -> None:
    """One by its id, all by their number; a retry of nothing leaves nothing."""
    add_dead_letters(imq, named("a"), named("b"), named("c"))
    assert imq("jobs", "retry", "a" * 32).exit_code == 0
    assert imq("jobs", "discard", "b" * 32).exit_code == 0
    assert imq("jobs", "discard", "b" * 32).exit_code == 1
    assert imq("jobs", "retry", "--all").exit_code == 0
    assert imq("jobs", "retry", "--all").exit_code == 0
    assert summed_up(imq) == [
        ("dead_letter_retried", *OLGA, "a" * 32),
        ("dead_letter_discarded", *OLGA, "b" * 32),
        ("dead_letter_retried", *OLGA, "all"),
    ]
    assert exported(imq)[-1]["data"] == {"count": 1}


def test_queue_that_an_operator_resumes_and_key_that_they_replace_are_exported(imq: Imq) -> None:
    """The event of the timeline has no person: the command line has no login of GitHub."""

    async def pause(tx: Transaction) -> None:
        await tx.pauses.put((await queue(tx)).id, Pause(Reason.PAUSED_BY_HAND, "why", NOW))

    imq.within(pause)
    assert imq("resume", REPOSITORY.full_name, "main").exit_code == 0
    key = imq("landings", "rotate-key").stdout.split()[6]
    found = {each["action"]: each for each in exported(imq)}
    assert found["resumed"]["by"] is None
    resumed, rotated = found["queue_resumed"], found["signing_key_created"]
    assert (resumed["by"], resumed["repository"], resumed["base_branch"]) == ("olga", REPOSITORY.full_name, "main")
    assert (rotated["by"], rotated["via"], rotated["subject"]) == (*OLGA, key)


async def events_of_two_repositories(tx: Transaction) -> None:
    await queue(tx)
    await queue(tx, repository=OTHER)
    now = SystemClock().now()
    for at, where in ((NOW, REPOSITORY), (NOW, OTHER), (now, REPOSITORY)):
        await tx.timeline.append(TimelineEvent(at, "queued", where.id, "main", 1, data={"by": "mona"}))


def test_export_is_of_a_time_and_of_a_repository_where_that_is_asked(
    imq: Imq, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Page by page while IMQ runs, into a file for its owner only."""
    monkeypatch.setattr("bot.cli.queue_files._AT_ONCE", 1)
    imq.within(events_of_two_repositories)
    file = tmp_path / "audit.jsonl"
    with exclusive(imq.environ["DATABASE_URL"] or "", "run"):
        done = imq("export", "--audit-log", "--output", str(file))
    assert (done.exit_code, done.output) == (0, f"Exported the audit log to {file}\n")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(file.read_text().splitlines()) == 3

    def names(*more: str) -> list[str]:
        return [each["repository"] for each in exported(imq, *more)]

    assert names("--since", "1d") == [REPOSITORY.full_name]
    assert names("--repository", OTHER.full_name) == [OTHER.full_name]
    assert names("--repository", OTHER.full_name, "--since", "1d") == []


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        (("--timeline", "--audit-log"), "Give --timeline or --audit-log."),
        (("--since", "1d"), "Use --since with --audit-log."),
        (("--timeline", "--since", "1d"), "Use --since with --audit-log."),
    ],
)
def test_options_that_do_not_fit_are_refused(imq: Imq, options: tuple[str, ...], refusal: str) -> None:
    """Nothing is exported that was not asked for."""
    done = imq("export", *options)
    assert (done.exit_code, refusal in done.output) == (2, True)


def test_account_without_a_name_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container the user's number may have no name."""

    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 10001")

    monkeypatch.setattr("getpass.getuser", nameless)
    assert host.account() is None
