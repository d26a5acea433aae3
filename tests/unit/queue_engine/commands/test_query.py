"""Commands that only read: the facts of `/why` and `/queue status`."""

from dataclasses import replace
from typing import Any, cast

from queue_engine.admission.case import Case
from queue_engine.commands import query
from queue_engine.commands.context import CommandContext
from queue_engine.commands.parse import read
from queue_engine.config.model import Policy
from queue_engine.core.database.database import Database
from queue_engine.domain.facts import Snapshot
from queue_engine.domain.notice import Reply
from queue_engine.domain.reasons import Reason
from queue_engine.effects.context import Engine
from queue_engine.store import Store, Transaction
from tests.store.examples import changed, queue, stand
from tests.unit.queue_engine.examples import HOUR, NOW, POLICY, REPOSITORY, pull
from tests.unit.queue_engine.queries.examples import happened


async def facts(command: Any, t: Transaction, policy: Policy = POLICY, **of_pull: Any) -> dict[str, Any]:
    """What the command shows of pull request 1; neither asks the engine for anything."""
    engine = cast(Engine, None)
    case = Case(REPOSITORY, 1, delivery="delivery", governed=("main", policy))
    context = CommandContext(engine, case, Snapshot(pull(**of_pull)), "mona", None)
    reply: Reply = await command(t, context, read("why"), NOW)
    return reply.facts


async def test_why_of_an_entry_with_another_base_shows_the_queue_that_it_is_in(sqlite_database: Database) -> None:
    """Its base was edited, and the webhook is still to come: the other branch's faults are not its own."""
    async with Store(sqlite_database).transaction() as t:
        main = await queue(t)
        await stand(t, main, 1)
        shown = await facts(query.why, t, replace(POLICY, fault="line 3"), base_branch="next")
        own = await facts(query.why, t, replace(POLICY, fault="line 3"))
    assert (shown["base_branch"], shown["state"], shown["position"], shown["blockers"]) == ("main", "pending", 0, [])
    assert own["blockers"] == [{"reason": "misconfigured", "detail": "line 3", "until": None}]


async def test_why_names_github_and_the_missing_permission_only_if_they_hold_it_up(
    sqlite_database: Database,
) -> None:
    """What does not apply is left out."""
    async with Store(sqlite_database).transaction() as t:
        entry = await stand(t, await queue(t), 1)
        plain = await facts(query.why, t)
        await t.entries.save(changed(entry, github_failing_since=NOW - HOUR, blocked_until=NOW + HOUR))
        held_up = await facts(query.why, t)
    assert not {"blocked", "outage"} & plain.keys()
    assert (held_up["blocked"], held_up["outage"]) == ("workflows_permission", (NOW - HOUR).isoformat())


async def test_why_of_a_pull_request_that_is_not_queued_shows_how_it_left_and_its_label(
    sqlite_database: Database,
) -> None:
    """Every answer names the configuration that is not followed."""
    async with Store(sqlite_database).transaction() as t:
        never = await facts(query.why, t)
        await happened(t, 1, "cancelled", reason=Reason.LABEL_REMOVED, data={"detail": "by hand"})
        left = await facts(query.why, t, replace(POLICY, not_followed=("too long",)))
    own = {"base_branch": "main", "state": "not_queued", "label": "merge-queue"}
    assert never == own | {"whose_move": "author", "next": "never_queued"}
    assert left == own | {
        "whose_move": "nobody",
        "next": "label_removed",
        "event": "cancelled",
        "reason": "label_removed",
        "detail": "by hand",
        "at": NOW.isoformat(),
        "not_followed": ["too long"],
    }


async def test_status_lists_ten_entries_and_counts_all(sqlite_database: Database) -> None:
    """A branch without entries so far has an empty queue."""
    async with Store(sqlite_database).transaction() as t:
        empty = await facts(query.status, t)
        main = await queue(t)
        for number in range(1, 14):
            await stand(t, main, number)
        shown = await facts(query.status, t, replace(POLICY, depth=12))
    assert empty == {"base_branch": "main", "depth": 0, "entries": [], "held": 0, "not_ready": 0}
    assert shown["entries"] == [[number, "pending", NOW.isoformat()] for number in range(1, 11)]
    assert (shown["depth"], shown["held"], "reason" in shown) == (12, 1, False)
