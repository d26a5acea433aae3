"""A stored queue in trains with one run, and a GitHub double that merges, checks and moves branches as a test says."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from queue_engine.config.model import Policy, TrainRules
from queue_engine.domain.facts import Branch, BranchRules, CheckReport, Commit
from queue_engine.domain.policy import Candidates
from queue_engine.domain.port import GitHub as Port
from queue_engine.domain.run import CandidateTrigger, Run, RunMember, RunState
from queue_engine.executor.run_store import TrainState
from queue_engine.planner.queue_plan import follow_queue
from queue_engine.planner.trains.memory import Memory, started
from queue_engine.planner.trains.model import NewRun
from queue_engine.store import Store
from tests.store.examples import stand
from tests.unit.queue_engine.engine_setup import GitHub, Setup
from tests.unit.queue_engine.examples import NOW, rules


class TrainGitHub(GitHub):
    """Returns one of `answers` for a call of that name: a value, an error to raise, or a list of both in order."""

    def __init__(self, **answers: Any) -> None:
        super().__init__()
        self.required: Sequence[str] = ("ci",)
        self.reports_of: dict[str, tuple[CheckReport, ...]] = {}
        """The reports of commits that have others than the candidate."""
        self.answers: dict[str, Any] = {"create_branch": None, "update_refs": None, "branch_tip": None}
        self.answers |= {"branch_pushes": (), "workflow_files": {}, "paths": (), **answers}
        self.calls: list[tuple[Any, ...]] = []
        """Each such call: its name, and what follows the repository."""

    def __getattr__(self, name: str) -> Any:
        async def call(_repository: object, *given: Any, **_: Any) -> Any:
            return await self._canned(name, *given)

        if name.startswith("_"):
            raise AttributeError(name)
        return call

    async def own_login(self) -> str:
        return "imq[bot]"

    async def branch_rules(self, *_: object, kept: bool = False) -> BranchRules:
        return rules(*self.required)

    async def check_reports(self, repository: object, sha: str, *given: object) -> tuple[CheckReport, ...]:
        found = self.reports_of.get(sha)
        return await super().check_reports(repository, sha, *given) if found is None else found

    async def branch_tip(self, *given: object) -> Branch | None:
        return cast(Branch | None, await self._canned("branch_tip", *given[1:]))

    async def merge_into(self, _repository: object, branch: str, head: str, _message: str) -> Commit | None:
        """A merge onto the former one, unless an answer for this head says otherwise."""
        self.calls.append(("merge_into", branch, head))
        if head in self.answers:
            answer = self.answers[head]
            if isinstance(answer, Exception):
                raise answer
            return cast(Commit | None, answer)
        before = next((made[2] for made in reversed(self.calls[:-1]) if made[0] == "made"), "base-1")
        self.calls.append(("made", branch, f"merge-of-{head}"))
        return Commit(f"merge-of-{head}", f"tree-with-{head}", (before, head))

    def named(self, name: str) -> list[tuple[Any, ...]]:
        """What the calls of this name were given."""
        return [call[1:] for call in self.calls if call[0] == name]

    async def _canned(self, name: str, *given: Any) -> Any:
        self.calls.append((name, *given))
        answer = self.answers[name]
        answer = answer.pop(0) if isinstance(answer, list) else answer
        if isinstance(answer, Exception):
            raise answer
        return answer


async def a_state(
    store: Store,
    github: GitHub,
    numbers: Sequence[int] = (1, 2, 3),
    *,
    tested: Sequence[int] | None = None,
    members: Sequence[RunMember] | None = None,
    policy: Policy | None = None,
    **run: Any,
) -> tuple[TrainState, Run]:
    """The state of a queue of these pull requests, and its only run, which tests them; `run` changes that."""
    setup = Setup(store)
    queue = await setup.front()
    async with store.transaction() as tx:
        for number in numbers:
            if number != 1:
                await stand(tx, queue, number)
        await tx.queues.note_trains(queue.id, True)
        entries = await tx.entries.of_queue(queue.id)
    known = {each.number: each for each in entries}
    made = Run(
        id=None,
        queue_id=queue.id,
        base_branch="main",
        base_tip="base-1",
        members=tuple(members or (RunMember(each, known[each].id, known[each].head_sha) for each in numbers)),
        tested=frozenset(numbers if tested is None else tested),
        trigger=CandidateTrigger.PUSH,
        state=RunState.BUILDING,
        started_at=NOW,
    )
    ids = {each.number: each.id for each in entries}
    made = replace(made, members=tuple(replace(each, entry_id=ids[each.number]) for each in made.members), **run)
    engine = replace(setup.engine, github=cast(Port, github))
    state = TrainState(engine, queue, policy or Policy(), TrainRules(Candidates.AUTO), lambda: True)
    await state.load()
    async with store.transaction() as tx:
        stored = await tx.runs.add(made)
    assert stored.id is not None
    memory = replace(follow_queue(Memory(), entries, Policy()).with_tip("base-1"), trigger=made.trigger)
    await state.remember(started(memory, stored.id, NewRun(tuple(numbers), made.tested), state.seconds))
    await state.load()
    return state, state.runs[0]
