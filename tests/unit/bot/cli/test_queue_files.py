"""`imq export`, `imq import` and `imq backup` from the command line.

Covers `bot/cli/backup.py`.
"""

import json
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bot.process.sqlite_file import exclusive
from queue_engine.store import Transaction
from tests.store.examples import queue, stand
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
    assert (unknown.exit_code, unknown.output) == (2, "Error: acme/none has no queue.\n")


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
        ({"entries": {"status": "landed"}}, "Nothing was imported: the file contradicts itself"),
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
    again = imq("backup", str(file))
    assert (again.exit_code, "cannot be written: File exists" in again.output) == (2, True)


def test_backup_of_postgres_is_left_to_its_own_program(imq: Imq, tmp_path: Path) -> None:
    """The sentence names the command."""
    refused = Imq({**imq.environ, "DATABASE_URL": "postgresql://localhost/imq"})("backup", str(tmp_path / "copy"))
    assert (refused.exit_code, "`pg_dump --format=custom" in refused.output) == (2, True)
    assert list(tmp_path.glob("copy*")) == []
