"""Queues that IMQ exported on an earlier commit continue on this one.

`exported_queues.json.gz` is what `imq export` wrote after `three_queues`, on the last commit with many migrations.
"""

import gzip
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from github_emulator import CISettings, PullRequestOptions
from queue_engine.core.database.database import Database
from queue_engine.domain.reasons import Reason
from queue_engine.effects.context import Change
from queue_engine.handlers.restored import import_queues
from queue_engine.store import Store
from queue_engine.store.queue_file import QueueFile, read_queues
from tests.acceptance.project import total_at_most_ten
from tests.acceptance.test_queue_files import exported, imported, other_url
from tests.acceptance.train_world import CANDIDATES
from tests.acceptance.world import CI_TIME, LABEL, World, a_world
from tests.support.databases import MakeUrl

__all__ = ["other_url"]

FILE = Path(__file__).with_name("exported_queues.json.gz")
BASES = ("main", "next", "release")
CONFIGURATION = """\
depth: 3
merge: {method: merge}
priority: {labels: {urgent: 50}}
branches:
  - match: next
    trains: {candidates: push}
"""


async def three_queues(world: World) -> dict[str, Any]:
    """Three queues in flight: one of single entries, one of a train, and one with a pause."""
    repository, pulls = world.repository, {}
    made = repository.add_ci(
        "ci/test", settings=CISettings(duration=CI_TIME, judge=total_at_most_ten, branches=(*CANDIDATES, *BASES))
    )
    repository.push("main", {".github/imq.yml": CONFIGURATION}, "Configure IMQ", by="rhea")
    for base in BASES:
        if base != "main":
            repository.create_branch(base, "main")
        repository.protect(base, required_checks=[("ci/test", made.app.id)])
    for base, names in {
        "main": ("landed", "red", "front", "second", "urgent", "held", "draft"),
        "next": ("head", "middle", "tail"),
        "release": ("paused",),
    }.items():
        for name in names:
            files = {"red.txt": "11\n"} if name == "red" else None
            pulls[name] = world.open(name, base=base, files=files, options=PullRequestOptions(draft=name == "draft"))
    await world.pass_time(CI_TIME * 2)
    for name in ("landed", "red"):
        pulls[name].label(LABEL, by="mona")
    await world.until(lambda: pulls["landed"].merged)
    pulls["paused"].comment("/pause release notes", by="rhea")
    await world.settle()
    for name in ("paused", "head", "middle", "tail"):
        pulls[name].label(LABEL, by="mona")
    pulls["front"].label(LABEL, by="rhea")
    await world.until_status(pulls["front"], "checking")
    pulls["urgent"].label("urgent", by="rhea")
    for name in ("second", "urgent", "held", "draft"):
        pulls[name].label(LABEL, by="mona")
        await world.pass_time(timedelta(seconds=5))
    await world.until_status(pulls["head"], "checking")
    await world.settle()
    return pulls


def file_of(world: World, present: QueueFile) -> QueueFile:
    """The file with the commits of this world, whose SHAs another emulator would choose."""
    text = gzip.decompress(FILE.read_bytes()).decode()
    for former, sha in zip(commits(QueueFile.model_validate_json(text)), commits(present), strict=True):
        text = text.replace(former, sha)
    return QueueFile.model_validate_json(text)


def commits(file: QueueFile) -> list[str]:
    """The commits that entries name, and runs of one member: no other run of the file is continued."""
    entries = sorted(file.entries, key=lambda entry: entry.number)
    heads = [sha for entry in entries for sha in (entry.queued_head, entry.head_sha)]
    runs = sorted((run for run in file.runs if run.trigger is None), key=lambda run: run.id)
    return [*heads, *(sha for run in runs for sha in (run.base_tip, run.candidate) if sha is not None)]


def rows(file: QueueFile) -> dict[str, Any]:
    """The rows without the ids of a database, without what an import doubts, and without newer columns and tables."""
    content = file.model_dump(exclude={"exported_at"})
    own = {"id", "queue_id", "run_id", "seq", "needs_refetch", "maybe_created", "due_at", "wake_count", "version"}
    own |= {"label_updates"}
    return {
        part: [{name: value for name, value in row.items() if name not in own} for row in of_part]
        for part, of_part in content.items()
        if isinstance(of_part, list) and part != "consents"
    }


@pytest.mark.thorough
async def test_file_is_stored_whole(other_url: str) -> None:
    """Each row, with each value, is there on both databases."""
    file = QueueFile.model_validate_json(gzip.decompress(FILE.read_bytes()))
    database = Database(other_url)
    store = Store(database)
    try:
        async with store.transaction() as tx:
            assert await import_queues(Change(tx, file.exported_at), file)
        async with store.reading() as tx:
            assert rows(await read_queues(tx.connection, file.exported_at)) == rows(file)
    finally:
        await database.close()


async def test_queues_of_the_file_land(tmp_path: Path, make_sqlite_url: MakeUrl) -> None:
    """P2, P3, P4, P6: consent, order, candidates, the pause and comments of the file count, and each lands once."""
    other_url = make_sqlite_url()
    async with a_world(tmp_path, ci=False, protect=False) as world:
        pulls = await three_queues(world)
        file = file_of(world, await exported(world))
        await world.kill()
        assert await imported(world, other_url, file)
        world.environment["DATABASE_URL"] = other_url
        await world.restart()
        pulls["draft"].ready_for_review(by="mona")
        queued = ("front", "urgent", "second", "held", "draft", "head", "middle", "tail")
        await world.until(lambda: all(pulls[name].merged for name in queued), within=timedelta(hours=1))
        assert world.landed() == [pulls[name].number for name in ("landed", *queued[:5])]
        titles = [commit.title for commit in reversed(world.repository.log("next"))]
        assert titles[-3:] == [f"Merge pull request {pulls[name].number} from {name}" for name in queued[5:]]
        assert (await world.paused(), pulls["paused"].merged) == (Reason.PAUSED_BY_HAND.value, False)
        pulls["paused"].comment("/resume", by="rhea")
        await world.until(lambda: pulls["paused"].merged, within=timedelta(hours=1))
        await world.settle()
        assert [world.spoken(pull) for name, pull in pulls.items() if name != "red"] == [1] * 10
        assert not pulls["red"].merged
