"""An agent that knows no reason code: by the texts of tools and answers alone it does what each departure calls for."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from queue_engine.admission.rejection import refuse
from queue_engine.domain.departure import DequeueReason
from queue_engine.domain.reasons import REASONS, Outcome, Reason
from queue_engine.effects.record import dequeue
from queue_engine.rules.eligibility import Reject
from tests.acceptance.callers import caller
from tests.acceptance.commenting import say
from tests.acceptance.test_mcp import Agent
from tests.acceptance.world import CI_TIME, World, a_world

LEFT = [each for each in Reason if REASONS[each].outcome in {Outcome.FAILED, Outcome.CANCELLED, Outcome.REFUSED}]
"""Every reason for which a pull request leaves its queue, or is refused."""

QUEUE, CHANGE, STOP = "queue it again", "change it and queue it again", "stop"
ASK = "ask the {} and stop"

_PASSES = """not_queued hold_timed_out checks_broke_down mergeable_unknown update_timed_out base_keeps_moving
github_trouble"""
"""What may not happen again, although no one acts."""
_SETTLED = """label_removed label_deleted unqueued closed merged_elsewhere landed_with_another shadow_mode stacked_above
head_shared dependency_open set_waiting"""
"""What somebody decided, what is merged, and what another pull request ends."""
_MAINTAINER = """base_changed_at_merge permission_lost label_without_right not_allowed_to_queue branch_not_served
blocked_by_label blocked_by_author label_missing checks_timed_out no_checks checks_not_repeated workflows_unapproved
base_stays_red native_queue_required own_check_required linear_history_required method_not_allowed methods_contradict
branch_locked push_restricted ruleset_bypassed workflows_permission repository_archived repository_gone"""
_OPERATOR = "permission_missing internal_error"
PACE = timedelta(seconds=3)
"""Between two pull requests: a person has 100 calls a minute."""
WANTED = {
    **dict.fromkeys(_PASSES.split(), QUEUE),
    **dict.fromkeys(_SETTLED.split(), STOP),
    **dict.fromkeys(_MAINTAINER.split(), ASK.format("maintainer")),
    **dict.fromkeys(_OPERATOR.split(), ASK.format("operator")),
}
"""What each reason calls for in truth, which the agent does not know; for all others the author has to act."""


class BlindAgent:
    """Follows the tools' own texts. Each word that it looks for in an answer has to be in one of them."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._texts = ""
        self.asked: list[str] = []

    async def read_tools(self) -> None:
        """Ask what tools there are."""
        listed = (await self._agent.send("tools/list"))[1]["result"]["tools"]
        self._texts = "\n".join(each["description"] for each in listed)

    async def queue(self, pull: Any) -> Any:
        """Queue the head."""
        result = await self._agent.call("queue", number=pull.number, head_sha=pull.head_sha)
        return result["structuredContent"]

    async def decide(self, pull: Any) -> str:
        """Read how a pull request left, and choose what to do."""
        answer = (await self._agent.call("wait", number=pull.number))["structuredContent"]
        assert self._field(answer, "state") == "not_queued"
        if self._field(answer, "outcome") == "landed":
            return STOP
        if self._field(answer, "retry_safe"):
            return QUEUE
        who = self._field(answer, "whose_move")
        if who == "author":
            return CHANGE
        if who in {"maintainer", "operator"}:
            self.asked.append(self._field(answer, "next")["sentence"])
            return ASK.format(who)
        return STOP

    def _field(self, answer: Any, name: str) -> Any:
        assert name in self._texts, f"no text names {name}"
        return answer[name]


async def leave(world: World, pull: Any, reason: Reason) -> None:
    """Have a queued pull request leave, or be refused, for this reason."""
    engine, entry = world.bot.engine, await world.entry(pull)
    assert entry is not None
    policy = await engine.policies.of(entry.repository, entry.base_branch)
    facts = await engine.github.pull_request(entry.repository, pull.number)
    async with engine.change() as change:
        if REASONS[reason].outcome is not Outcome.REFUSED:
            await dequeue(change, entry, DequeueReason(reason), policy)
            return
        queue = await change.tx.queues.get(entry.queue_id)
        assert queue is not None
        await change.tx.entries.remove(entry)
        await refuse(change, queue, facts, Reject(reason), policy, by="mona", delivery=None)


@pytest.mark.thorough
async def test_agent_that_knows_no_code_resolves_every_reason(tmp_path: Path) -> None:
    """It repeats what is safe, changes what is up to the author, asks others where they have to act, or stops.

    It queues nothing again with the same fault, and nothing that a person dequeued (P4).
    """
    async with a_world(tmp_path, settings={"IMQ_MAX_QUEUE_DEPTH": "0"}) as world, aiohttp.ClientSession() as session:
        world.unsettled = "departures without their causes"
        agent = BlindAgent(Agent(await caller(world, session)))
        await agent.read_tools()
        pulls = {reason: world.open(reason.value) for reason in LEFT}
        await world.pass_time(CI_TIME * 2)
        await say(world, pulls[LEFT[0]], "/pause", by="rhea")
        await world.settle()
        decided = {}
        for reason, pull in pulls.items():
            await agent.queue(pull)
            await leave(world, pull, reason)
            decided[reason.value] = await agent.decide(pull)
            await world.pass_time(PACE)
        assert decided == {reason.value: WANTED.get(reason.value, CHANGE) for reason in LEFT}
        assert len(agent.asked) == len(_MAINTAINER.split() + _OPERATOR.split())
        assert await world.entries() == ()
        resolved = {reason: pull for reason, pull in pulls.items() if decided[reason.value] != STOP}
        for reason, pull in resolved.items():
            if decided[reason.value] == CHANGE:
                pull.push({f"{reason.value}.md": "mended\n"}, "Mend it", by="mona")
        await world.pass_time(CI_TIME * 2)
        for pull in resolved.values():
            assert (await agent.queue(pull))["state"] != "not_queued"
            await world.pass_time(PACE)
        await say(world, pulls[LEFT[0]], "/resume", by="rhea")
        await world.until(lambda: all(pull.merged for pull in resolved.values()), within=CI_TIME * 2 * len(LEFT))
        assert {await agent.decide(pull) for pull in resolved.values()} == {STOP}
        assert not any(pull.merged for reason, pull in pulls.items() if reason not in resolved)
