"""A landing leaves one record, whose passport proves it; what was changed is named (P1, P2)."""

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import jsonschema_rs
import pytest
from sqlalchemy import text

from bot.passport.keys import line_of
from bot.passport.statement import LANDING, TEST_RESULT, PassportError, checks_of, landing_in
from queue_engine.core.database.database import Database
from queue_engine.migrations import migrate
from queue_engine.store import Store
from queue_engine.store.action_records import FIRST
from queue_engine.store.queue_file import restore_queues
from tests.acceptance.callers import Caller
from tests.acceptance.landing_witness import SCHEMA, assert_landings_proved, landings, verified_by_hand
from tests.acceptance.page_readers import reader
from tests.acceptance.test_queue_files import exported
from tests.acceptance.train_world import a_train_world, queue_all, ready
from tests.acceptance.world import CI_TIME, LABEL, World


def kill_after_merge(world: World) -> list[bool]:
    """Kill the pass after GitHub has merged, and before IMQ stores that; returns whether it happened."""
    merge: Any = world.bot.engine.github.merge
    killed = list[bool]()

    async def merged(*given: Any, **more: Any) -> Any:
        await merge(*given, **more)
        killed.append(True)
        raise asyncio.CancelledError

    object.__setattr__(world.bot.engine.github, "merge", merged)
    return killed


async def published_keys(world: World) -> dict[str, Any]:
    """The public keys as everyone reads them."""
    port = world.runner.addresses[0][1]
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/.well-known/imq-keys.json") as answer,
    ):
        return dict((await answer.json())["keys"])


@pytest.mark.thorough
async def test_landing_of_an_updated_pull_request_is_proved_although_imq_died_before_it_stored_it(world: World) -> None:
    """P1, P2: one record says base, trees, checks and consent; a second implementation verifies its passport."""
    pull = await world.behind("late")
    queued, before = pull.head_sha, world.repository.log("main")[0].sha
    pull.label(LABEL, by="mona")
    killed = kill_after_merge(world)
    await world.until(lambda: bool(killed))
    await world.kill()
    await world.restart()
    await world.until(lambda: LABEL not in pull.labels)
    await world.settle()

    [found] = await landings(world.bot.engine.store)
    tip, head = world.repository.log("main")[0], pull.head_sha
    record = dict(found.record)
    jsonschema_rs.validate(SCHEMA, record)
    assert (record["landed"]["commit"], record["landed"]["tree"]) == (tip.sha, world.repository.tree("main"))
    assert record["base"] == {"branch": "main", "before": before}
    assert record["candidate"] == {"commit": head, "tree": world.repository.tree(head)}
    assert (record["method"], record["how"], record["verdict"]) == ("merge", "merge", {"result": "equal"})
    [check], [member] = checks_of(record), record["members"]
    assert (check["name"], check["app"], check["conclusion"]) == ("ci/test", world.app_id("ci"), "success")
    assert (check["commit"], "from" in check) == (head, False)
    assert (member["number"], member["head"], member["author"]) == (pull.number, head, "mona")
    consents = [(each.get("head"), each["by"], each["how"]) for each in member["consents"]]
    assert consents == [(queued, "mona", "label"), (None, None, "own_update")]

    keys, line = await published_keys(world), line_of(found)
    [(key_id, key)] = keys.items()
    statements = [verified_by_hand(each, key["keyval"]["public"]) for each in line["envelopes"]]
    assert [each["predicateType"] for each in statements] == [LANDING, TEST_RESULT]
    assert statements[0]["predicate"] == record

    async with world.bot.engine.change() as change:
        former = await world.bot.passport_keys.rotate(change.tx, change.now, by="root") != key_id
        stored = {each.id == key_id: each.sealed is None for each in await change.tx.landing_keys.all()}
        done = await change.tx.actions.page(FIRST, limit=99)
    assert (former, stored) == (True, {True: True, False: False})
    keys_made = [(each.by, each.via) for each in done if each.action == "signing_key_created"]
    assert keys_made == [(None, "imq"), ("root", "command_line")]
    assert landing_in(line, await published_keys(world)) == record


CHANGES = {
    "record = replace(record, '\"equal\"', '\"exempt\"'), result = 'exempt'": "forged",
    "record = substr(record, 2)": "malformed",
    "sha = tree": "contradictory",
    "result = 'exempt'": "contradictory",
    "key_id = 'ffff'": "foreign_key",
    "signatures = NULL": "malformed",
}
"""What may be done to a stored landing, and what a verifier calls it."""


async def test_changed_row_of_a_landing_is_named(world: World) -> None:
    """P1: a changed database changes no passport: a verifier says what is wrong with each row."""
    pull = world.open("add")
    await world.pass_time(CI_TIME * 2)
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged)
    await world.settle()
    keys, kinds = await published_keys(world), dict[str, str]()
    for change in CHANGES:
        try:
            async with world.bot.engine.store.transaction() as tx:
                await tx.connection.execute(text(f"UPDATE landings SET {change}"))
                [found] = await tx.landings.since(None, 2)
                landing_in(line_of(found), keys)
        except PassportError as refused:
            # The transaction is rolled back, so that the next change finds the row as IMQ wrote it.
            kinds[change] = refused.kind.value
    assert kinds == CHANGES


async def test_landing_is_shown_by_api_and_pages_and_moves_with_an_export(
    world: World, mona: Caller, tmp_path: Path
) -> None:
    """P1: people and programs find a landing by its pull request, commit and tree; another database verifies it."""
    for name in ("one", "two"):
        pull = world.open(name)
        await world.pass_time(CI_TIME * 2)
        pull.label(LABEL, by="mona")
        await world.until(lambda pull=pull: pull.merged)  # type: ignore[misc]
        await world.settle()
    keys, path = await published_keys(world), "/api/v1/repositories/acme/widgets"
    tip = world.repository.log("main")[0].sha
    first = (await mona.ask("GET", f"{path}/landings?limit=1&branch=main")).body
    assert [each["commit"] for each in first["landings"]] == [tip]
    rest = (await mona.ask("GET", f"{path}/landings?cursor={first['next']}")).body
    assert (len(rest["landings"]), rest["next"]) == (1, None)
    by_sha = (await mona.ask("GET", f"{path}/landings/{tip}")).body["landings"]
    by_tree = (await mona.ask("GET", f"{path}/trees/{world.repository.tree('main')}")).body["landings"]
    assert by_sha == by_tree == first["landings"]
    assert landing_in(by_sha[0], keys) == by_sha[0]["record"]
    assert (await mona.ask("GET", f"{path}/landings/{'0' * 40}")).status == 404
    async with reader(world, "mona") as person:
        for address in ("landings", f"pulls/{pull.number}"):
            page = await person.get(f"/repositories/acme/widgets/{address}")
            assert f"{tip[:10]} on main" in page.text
            assert "ci/test mona (label) the tested tree" in page.text

    file = await exported(world)
    database = Database(f"sqlite:///{tmp_path / 'other.db'}")
    await migrate(database)
    try:
        async with Store(database).transaction() as tx:
            await restore_queues(tx.connection, file)
            await restore_queues(tx.connection, file)
        assert len(await landings(Store(database))) == 2
        await assert_landings_proved(Store(database))
        async with Store(database).reading() as tx:
            assert await tx.landing_keys.current() is None
    finally:
        await database.close()


@pytest.mark.thorough
async def test_each_member_of_a_train_has_a_record_with_those_before_it(tmp_path: Path) -> None:
    """P1: every commit of a train that moved the base is proved, by the tree that the train had after this member."""
    async with a_train_world(tmp_path) as world:
        pulls = await ready(world, "a", "b", "c")
        before = world.repository.log("main")[0].sha
        queue_all(pulls)
        await world.until(lambda: all(pull.merged for pull in pulls))
        await world.settle()
        records = [each.record for each in await landings(world.bot.engine.store)]
        numbers = [pull.number for pull in pulls]
        assert [[each["number"] for each in record["members"]] for record in records] == [
            numbers[:1],
            numbers[:2],
            numbers,
        ]
        commits = [record["landed"]["commit"] for record in records]
        assert [record["base"]["before"] for record in records] == [before, *commits[:2]]
        assert commits[-1] == world.repository.log("main")[0].sha
        last = records[-1]
        assert last["candidate"]["tree"] == world.repository.tree("main")
        assert {(each["how"], each["method"], each["verdict"]["result"]) for each in records} == {
            ("base_move", "merge", "equal")
        }
        assert {check["commit"] for record in records for check in checks_of(record)} == {last["candidate"]["commit"]}


@pytest.mark.thorough
async def test_green_branch_follows_what_is_proved_and_nothing_else(tmp_path: Path) -> None:
    """P1: it is at the end of each landed train, never between, and never at a push until its own checks have passed.

    Each landing costs one request at most.
    """
    more = "merge: {green_branch: 'imq-green/{base}', queued_by: true}\n"
    async with a_train_world(tmp_path, more=more) as world:
        git = world.repository.record.git
        pulls = await ready(world, "a", "b", "c")
        queue_all(pulls)
        await world.until(lambda: all(pull.merged for pull in pulls))
        await world.settle()
        tip = world.repository.log("main")[0]
        assert git.branches()["imq-green/main"] == tip.sha
        assert "Queued-by: mona" in tip.message
        world.repository.push("main", {"by-hand.py": "pushed\n"}, "Push", by="rhea")
        await world.settle()
        assert git.branches()["imq-green/main"] == tip.sha
        [late] = await ready(world, "late")
        late.label(LABEL, by="mona")
        before = world.requests("POST /graphql")
        await world.until(lambda: late.merged)
        await world.settle()
        assert git.branches()["imq-green/main"] == world.repository.log("main")[0].sha
        assert world.requests("POST /graphql") - before < 20


async def test_green_branch_that_others_moved_goes_neither_back_nor_to_what_is_unproved(tmp_path: Path) -> None:
    """P1: from where somebody put it IMQ moves it only forward; a commit that the base lacks stays where it is."""
    more = "merge: {green_branch: 'imq-green/{base}'}\n"
    async with a_train_world(tmp_path, more=more) as world:
        git, found = world.repository.record.git, list[str]()

        async def land(name: str) -> str:
            [pull] = await ready(world, name)
            pull.label(LABEL, by="mona")
            await world.until(lambda: pull.merged)
            await world.settle()
            found.append(git.branches().get("imq-green/main", "none"))
            return str(world.repository.sha("main"))

        first = await land("first")
        assert found == [first]
        # Back, to an older commit of the base, and away: IMQ brings it forward again.
        for tip in (world.repository.log("main")[-1].sha, None):
            if tip is None:
                world.repository.delete_branch("imq-green/main", by="rhea")
            else:
                git.set_ref("heads/imq-green/main", tip)
            assert await land(f"after-{tip}") == found[-1]
        # Ahead, to a push whose checks still run: IMQ does not take it back, and goes on from there.
        pushed = world.repository.push("main", {"by-hand.py": "pushed\n"}, "Push", by="rhea")
        git.set_ref("heads/imq-green/main", pushed)
        await world.settle()
        assert git.branches()["imq-green/main"] == pushed
        assert await land("later") == found[-1]
        # Elsewhere, to a commit that the base lacks: it stays.
        away = world.repository.push("away", {"away.py": "1\n"}, "Away", by="rhea")
        git.set_ref("heads/imq-green/main", away)
        await land("last")
        assert found[-1] == away
