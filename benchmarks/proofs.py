"""What the record of a landing costs: processor time and room, beside the transaction that it is a part of."""

import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from pydantic import SecretStr

from benchmarks.sizes import Size, database_urls
from benchmarks.table import Row, seconds_text
from bot.passport.keys import PassportKeys
from queue_engine.config.model import Policy
from queue_engine.core.database.database import Database
from queue_engine.domain.consent import ConsentKind
from queue_engine.domain.facts import BranchRules, CheckReport, CheckState, Commit, RequiredCheck
from queue_engine.domain.model import Entry
from queue_engine.effects.context import Change
from queue_engine.effects.landings import record_landing
from queue_engine.migrations import migrate
from queue_engine.rules.proof import proof_of
from queue_engine.store import Store
from tests.store.examples import NOW, queue, stand
from tests.support.app_key import KEY

_CHECKS = ("build", "lint", "unit", "browser")
_LINK = "https://github.com/acme/rocket/actions/runs/12345678901/job/98765432109"
_MOST_SECONDS, _MOST_BYTES = 0.001, 4096


async def record_rows(size: Size, _seed: int) -> list[Row]:
    """Land so many entries on each database with and without the record; four checks each."""
    number, rows = size.of(2_000, 200, 3), list[Row]()
    with tempfile.TemporaryDirectory() as name, database_urls(size, Path(name)) as urls:
        for url in urls:
            database = Database(url)
            try:
                await migrate(database)
                rows.append(await _row(Store(database), database.dialect, number))
            finally:
                await database.close()
    return rows


async def _row(store: Store, dialect: str, number: int) -> Row:
    keys = PassportKeys(SecretStr(KEY.private))
    async with store.transaction() as tx:
        landed = await stand(tx, await queue(tx), 1, head_sha="a" * 40)
        await tx.consents.add(landed, ConsentKind.LABEL, landed.queued_by, NOW)
    await _land(store, keys, landed, 1, records=True)
    without = await _land(store, keys, landed, number, records=False)
    spent = (await _land(store, keys, landed, number, records=True) - without) / number
    async with store.reading() as tx:
        [found] = await tx.landings.since(None, 1)
    room = len(json.dumps(found.record)) + sum(map(len, found.signatures))
    return Row(
        name=f"record {dialect}",
        what=f"processor time and room of the record of a landing, signed, {dialect}",
        measured=f"{seconds_text(spent)}, {room:,} bytes (n={number})",
        value=spent,
        goal="< 1 ms and < 4 KB",
        met=spent < _MOST_SECONDS and room < _MOST_BYTES,
        note="beside the same transactions without it; the proof by the checks, rules and configuration is part of it",
    )


async def _land(store: Store, keys: PassportKeys, entry: Entry, number: int, *, records: bool) -> float:
    """Return the processor time of so many landings, each a transaction of its own."""
    policy, checks = Policy(), frozenset(RequiredCheck(each, 15368) for each in _CHECKS)
    rules = BranchRules(required_checks=checks, native_queue=False, linear_history=False)
    reports = [CheckReport(each, 15368, CheckState.PASSED, "success", _LINK, NOW, NOW) for each in _CHECKS]
    commit, start = Commit("d" * 40, "b" * 40, ("c" * 40, entry.head_sha)), time.process_time()
    for _ in range(number):
        async with store.transaction() as tx:
            await tx.consents.verify(entry)  # As before each merge.
        async with store.transaction() as tx:
            await tx.queues.wake(entry.queue_id, NOW, anyway=True)
            if records:
                proof = proof_of(entry.head_sha, checks, reports, rules, policy)
                run = replace(entry.run, proof=proof, tested_tree="b" * 40, base_tip="c" * 40)
                await record_landing(Change(tx, NOW, sign=keys.sign), replace(entry, run=run), commit, policy)
    return time.process_time() - start
