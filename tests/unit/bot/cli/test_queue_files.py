"""`imq export`, `imq import` and `imq backup` from the command line."""

import json
import sqlite3
import stat
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from bot.process.sqlite_file import exclusive
from queue_engine.core.timing.clock import SystemClock
from queue_engine.domain.known_facts import Fact, Push, of_branch
from queue_engine.domain.model import Pause, TimelineEvent
from queue_engine.domain.notice import CommandReply
from queue_engine.domain.reasons import Reason
from queue_engine.store import Transaction
from queue_engine.store.restored import MARK
from queue_engine.store.tables import outbox
from tests.store.examples import NOW, OTHER, REPOSITORY, queue, stand
from tests.store.outbox.outbox_examples import want
from tests.support.databases import MakeUrl
from tests.unit.bot.cli.imq import Imq


async def three_queued(tx: Transaction) -> None:
    main = await queue(tx)
    for number in (1, 2, 3):
        await stand(tx, main, number)


async def numbers(tx: Transaction) -> list[int]:
    return [entry.number for each in await tx.queues.all() for entry in await tx.entries.of_queue(each.id)]


def exported(imq: Imq, file: Path) -> dict[str, Any]:
    """Export three entries, and remove them from the database."""
    imq.within(three_queued)
    done = imq("export", "--output", str(file))
    assert (done.exit_code, done.output.split(" to ")[0]) == (0, "Exported 1 queues with 3 pull requests"), done.output

    async def forget(tx: Transaction) -> None:
        for each in await tx.queues.all():
            for entry in await tx.entries.of_queue(each.id):
                await tx.entries.remove(entry)

    imq.within(forget)
    content: dict[str, Any] = json.loads(file.read_text())
    return content


def test_export_writes_a_private_file_once_and_import_reads_it(imq: Imq, tmp_path: Path) -> None:
    """Titles of private repositories are for the operator alone, and no file is overwritten."""
    file = tmp_path / "queues.json"
    exported(imq, file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    again = imq("export", "--output", str(file))
    assert (again.exit_code, "cannot be written: File exists" in again.output) == (2, True)
    assert imq("import", str(file)).output == "Imported 1 queues with 3 pull requests\n"
    assert imq.within(numbers) == [1, 2, 3]
    assert "imported before; nothing was changed" in imq("import", str(file)).output
    assert json.loads(imq("export").output)["entries"][0]["number"] == 1
    assert json.loads(imq("export", "--repository", "acme/rocket").output)["format"] == "imq-queues"
    unknown = imq("export", "--repository", "acme/none")
    assert (unknown.exit_code, unknown.output) == (
        2,
        "Error: IMQ does not know acme/none. Install the App there, and start IMQ.\n",
    )


async def in_flight(tx: Transaction) -> None:
    """In one repository an entry, a paused queue without one, and what is left of number 9; another has an entry."""
    main, paused = await queue(tx), await queue(tx, "release")
    await stand(tx, main, 1)
    await stand(tx, await queue(tx, "main", OTHER), 2)
    await tx.pauses.put(paused.id, Pause(Reason.PAUSED_BY_HAND, "why", NOW))
    await tx.timeline.append(TimelineEvent(NOW, "failed", REPOSITORY.id, "main", 9))
    await tx.outbox.want_label(REPOSITORY, 9, "merge-queue", on=False, due=NOW)
    await tx.rejections.put(REPOSITORY.id, 9, "head-9", Reason.CONFLICT, NOW)
    await tx.answers.put(REPOSITORY.id, 9, 1, CommandReply(at=NOW, by="mona", replies=()))
    fact = Fact(subject=of_branch("main"), statement=Push(before="old", after="new"))
    await tx.known.record(REPOSITORY.id, [fact], NOW)


def test_export_has_all_that_later_decisions_need_and_nothing_of_other_repositories(imq: Imq) -> None:
    """P4: a label that a dequeue ended does not count again; a pause remains, a comment is answered once."""
    imq.within(in_flight)
    content = json.loads(imq("export", "--repository", REPOSITORY.full_name).output)
    assert {each["base_branch"] for each in content["queues"]} == {"main", "release"}
    assert {each["repository_id"] for each in content["queues"]} == {REPOSITORY.id}
    assert not [name for each in content["queues"] for name in each if "lease" in name]
    for part in ("outbox", "rejections", "answers", "timeline"):
        assert [each["number"] for each in content[part]] == [9], part
    assert [each["subject"] for each in content["known_facts"]] == [of_branch("main")]
    assert len(json.loads(imq("export").output)["entries"]) == 2


def test_import_doubts_what_the_file_says_and_keeps_the_pauses_of_this_database(imq: Imq, tmp_path: Path) -> None:
    """P2, P4: the file is older than GitHub, and a person who paused this queue meanwhile meant it."""

    async def pause_here(tx: Transaction) -> None:
        await tx.pauses.put((await queue(tx)).id, Pause(Reason.PAUSED_BY_HAND, "why", NOW))

    async def doubts(tx: Transaction) -> tuple[set[bool], set[bool], list[Reason]]:
        main = await queue(tx)
        assert main.due_at is not None, "its first pass reads the pull requests"
        entries = await tx.entries.of_queue(main.id)
        unsure = await tx.connection.scalars(select(outbox.c.maybe_created))
        return {entry.needs_refetch for entry in entries}, set(unsure), [pause.reason for pause in main.pauses]

    imq.within(want)
    exported(imq, tmp_path / "queues.json")
    imq.within(pause_here)
    assert imq("import", str(tmp_path / "queues.json")).exit_code == 0
    assert imq.within(doubts) == ({True}, {True}, [Reason.PAUSED_BY_HAND])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 2}, "version: Input should be 1"),
        ({"format": "else"}, "format: Input should be 'imq-queues'"),
        ({"queues": [{}]}, "queues.0.id: Field required (and "),
        ({"queues": []}, "Nothing was imported: the file contradicts itself"),
        ({"more": 1}, "more: Extra inputs are not permitted"),
        ({"entries": {"title": "\0"}}, "entries.0.title: String should match pattern"),
        ({"entries": {"number": 2**40}}, "entries.0.number: Input should be less than"),
        ({"entries": {"run_id": 9}}, "Nothing was imported: the file contradicts itself"),
        ({"entries": {"trusted_labels": 7}}, "Nothing was imported: the file has values that IMQ cannot read"),
        ({"entries": {"later_column": 7}}, "entries.0.later_column: Extra inputs are not permitted"),
    ],
)
def test_import_of_a_faulty_file_names_the_fault_and_stores_nothing(
    imq: Imq, tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    """One sentence, exit code 2, and the database as it was."""
    file = tmp_path / "queues.json"
    content = exported(imq, file)
    if isinstance(own := change.get("entries"), dict):
        change = {"entries": [{**content["entries"][0], **own}, *content["entries"][1:]]}
    file.write_text(json.dumps(content | change))
    refused = imq("import", str(file))
    assert (refused.exit_code, words in refused.output) == (2, True), refused.output
    assert len(refused.output.splitlines()) == 1
    assert imq.within(numbers) == []


def test_queues_move_only_while_no_process_runs_on_the_file(imq: Imq, make_sqlite_url: MakeUrl, tmp_path: Path) -> None:
    """Two databases with the same queues would both merge."""
    url = make_sqlite_url()
    imq = Imq({**imq.environ, "DATABASE_URL": url})
    file = tmp_path / "queues.json"
    exported(imq, file)
    with exclusive(url, "run"):
        for arguments in (["export"], ["import", str(file)]):
            refused = imq(*arguments)
            assert (refused.exit_code, "is in use by `imq run`, process " in refused.output) == (2, True)
    assert imq.within(numbers) == []
    assert imq("import", str(file)).exit_code == 0


@pytest.mark.postgres
def test_queues_move_only_while_no_process_reports_to_postgres(
    imq: Imq, make_postgres_url: MakeUrl, tmp_path: Path
) -> None:
    """A process that ended is no obstacle, nor one that was killed long ago."""
    imq = Imq({**imq.environ, "DATABASE_URL": make_postgres_url()})
    file = tmp_path / "queues.json"
    exported(imq, file)

    def report(*, ago: timedelta) -> None:
        reported_at = SystemClock().now() - ago
        imq.within(lambda tx: tx.processes.report("host:7", reported_at, {"role": "worker"}, ""))

    report(ago=timedelta(seconds=90))
    for arguments in (["export"], ["import", str(file)]):
        refused = imq(*arguments)
        assert refused.exit_code == 2
        assert "in use by `imq worker` (host:7). Stop all processes of IMQ" in refused.output
        assert len(refused.output.splitlines()) == 1
    assert imq.within(numbers) == []
    report(ago=timedelta(minutes=3))
    assert imq("import", str(file)).exit_code == 0
    assert imq.within(numbers) == [1, 2, 3]


def test_import_of_something_else_is_refused_in_a_sentence(imq: Imq, tmp_path: Path) -> None:
    """A file that was cut off, or that is no JSON."""
    file = tmp_path / "queues.json"
    file.write_text("{")
    refused = imq("import", str(file))
    assert (refused.exit_code, "is no file of queues in flight" in refused.output) == (2, True)


def test_backup_copies_a_file_in_use_for_its_owner_alone(imq: Imq, make_sqlite_url: MakeUrl, tmp_path: Path) -> None:
    """The copy is one file, and no file is overwritten."""
    imq = Imq({**imq.environ, "DATABASE_URL": make_sqlite_url()})
    imq.within(three_queued)
    file = tmp_path / "copy.db"
    done = imq("backup", str(file))
    assert (done.exit_code, stat.S_IMODE(file.stat().st_mode)) == (0, 0o600), done.output
    with closing(sqlite3.connect(file)) as copy:
        assert copy.execute("SELECT number FROM entries ORDER BY seq").fetchall() == [(1,), (2,), (3,)]
        assert copy.execute("PRAGMA journal_mode").fetchall() == [("delete",)]
        assert (MARK,) in copy.execute("SELECT part FROM sweeps").fetchall(), "IMQ doubts it, however young it is"
    again = imq("backup", str(file))
    assert (again.exit_code, "cannot be written: File exists" in again.output) == (2, True)


def test_backup_of_postgres_is_left_to_its_own_program(imq: Imq, tmp_path: Path) -> None:
    """The sentence names the command."""
    refused = Imq({**imq.environ, "DATABASE_URL": "postgresql://localhost/imq"})("backup", str(tmp_path / "copy"))
    assert (refused.exit_code, "`pg_dump --format=custom" in refused.output) == (2, True)
    assert list(tmp_path.glob("copy*")) == []


async def events_of_two_repositories(tx: Transaction) -> None:
    await queue(tx)
    await queue(tx, repository=OTHER)
    for number in range(1, 6):
        where = OTHER if number == 4 else REPOSITORY
        happened = TimelineEvent(NOW + timedelta(minutes=number), "queued", where.id, "main", number)
        await tx.timeline.append(happened)
    await tx.timeline.append(TimelineEvent(NOW, "run_started", REPOSITORY.id, "main", 0, data={"run": 7}))


def test_export_of_the_timeline_has_its_events_as_the_api_streams_them(
    imq: Imq, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Page by page, oldest first, while IMQ runs; of one repository if that is asked."""
    monkeypatch.setattr("bot.cli.queue_files._AT_ONCE", 2)
    imq.within(events_of_two_repositories)
    file = tmp_path / "timeline.jsonl"
    with exclusive(imq.environ["DATABASE_URL"] or "", "run"):
        done = imq("export", "--timeline", "--output", str(file))
    assert (done.exit_code, done.output) == (0, f"Exported the timeline to {file}\n")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    events = [json.loads(line) for line in file.read_text().splitlines()]
    assert [each["number"] for each in events] == [1, 2, 3, 4, 5, None]
    assert [each["repository"] for each in events].count(OTHER.full_name) == 1
    assert (events[-1]["event"], events[-1]["data"]) == ("run_started", {"run": 7})
    some = imq("export", "--timeline", "--repository", OTHER.full_name)
    assert [json.loads(line)["number"] for line in some.output.splitlines()] == [4]
    refused = imq("export", "--timeline", "--repository", "acme/absent")
    assert (refused.exit_code, refused.output) == (
        2,
        "Error: IMQ does not know acme/absent. Install the App there, and start IMQ.\n",
    )
