"""Test a pull request without queueing it: on the present base, or on the queue's end, for a person who may queue.

A comment `/try` stores its reply and a job in one transaction. The reply has the state of the test, so that any process
continues it: the branch is built again until its commit is stored. What it tests is no member of a run, lands nothing,
and is no consent. It ends when somebody pushes, changes the base branch or closes the pull request.

People may have branches of these names. The reply has the commits at which IMQ leaves its own; a branch at any other
commit is IMQ's only if GitHub's activity shows that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import structlog

from queue_engine.config.model import Policy
from queue_engine.core.jobs.job import Hold, Job
from queue_engine.domain.errors import Forbidden, HeadConflict, Invalid, MergeError, NotFound, StaleRead, WriteRefused
from queue_engine.domain.facts import CheckState, PullRequest, RequiredCheck
from queue_engine.domain.known_facts import PullRequestState, of_pull
from queue_engine.domain.model import Queue, Repository
from queue_engine.domain.notice import CommandReply, Reply, ReplyKind
from queue_engine.domain.policy import Candidates
from queue_engine.domain.run import CandidateTrigger
from queue_engine.effects import notices
from queue_engine.effects.context import Change, Engine
from queue_engine.executor.candidate import EXISTS
from queue_engine.executor.cleanup import TRY_AGAIN, TRY_JOB, CandidateCleanup, believe, request_lost, try_branches
from queue_engine.executor.triggers import choice_at
from queue_engine.planner.trains.memory import from_json
from queue_engine.rules.checks import judge, run_checks
from queue_engine.rules.consent import known_heads

if TYPE_CHECKING:
    from queue_engine.workflows.trigger_choice import TriggerChoice

_log = structlog.get_logger("imq.try")

_SHORT = 7
_LIMIT = timedelta(days=2)
"""The longest test: IMQ keeps the reply, which has its state, for three days (`idempotency.KEPT`)."""
_FIRST, _LONGEST = timedelta(seconds=15), timedelta(minutes=5)
"""How long IMQ waits before it reads the checks again, twice as long each time; and at most."""

_ENDED = timedelta(minutes=1)
"""After which the job of a test has ended: until then its branches are not lost."""

_Ended = tuple[ReplyKind, str]
"""The result: its kind, and the checks that failed, or why there is none."""


async def request_run(
    change: Change, repository: Repository, pull: PullRequest, policy: Policy, *, by: str, comment: int, on_queue: bool
) -> dict[str, Any] | str:
    """Enqueue the test of a pull request's present head; returns its state, or why this person gets none."""
    if pull.head_repository is None or pull.head_repository.casefold() != repository.full_name.casefold():
        return "commits of a fork get no branch of this repository, whose secrets CI has there"
    if any(each.kind == TRY_JOB for each in await change.tx.jobs.unfinished(_process(repository, pull.number))):
        return "a test of it is under way"
    under_way = await change.tx.jobs.unfinished_requests(TRY_JOB, f"{TRY_JOB}:{repository.id}:")
    if sum(each["by"].casefold() == by.casefold() for each in under_way) >= policy.tries:
        return f"{by} has {policy.tries} tests under way here, which is the limit" if policy.tries else "it is off here"
    await enqueue_test(change, repository, pull.number, pull.base_branch, by=by, comment=comment)
    return {"head": pull.head_sha, "on": pull.base_branch, "on_queue": on_queue, "since": change.now.isoformat()}


async def enqueue_test(
    change: Change, repository: Repository, number: int, base_branch: str, *, by: str, comment: int
) -> None:
    """Enqueue the job of a test whose reply is stored; a comment of this person asked for it."""
    its_own = {"number": number, "base_branch": base_branch, "comment": comment, "by": by}
    request = {"repository": asdict(repository)} | its_own
    await change.enqueue(TRY_JOB, request, repository.id, number)


def _process(repository: Repository, number: int) -> str:
    return f"{TRY_JOB}:{repository.id}:{number}"


async def judge_again(change: Change, repository: Repository, number: int, *, after: timedelta = timedelta(0)) -> None:
    """Have the test of a pull request judged now, or `after` that, since a webhook may have ended it."""
    await change.tx.jobs.hasten(_process(repository, number), change.now, due=change.now + after)


class RunRequests:
    """Handles the jobs of `request_run`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._cleanup = CandidateCleanup(engine)

    async def advance(self, job: Job) -> Hold | None:
        """Build, start or judge the test; a hold until it is to be judged again. Raises RateLimitError and others.

        Raises Unavailable, too: each step may be repeated.
        """
        repository, number, answer = await self._read(job)
        at = None if answer is None else _place_of(answer.replies)
        try:
            if answer is None or at is None:
                # IMQ forgets replies after a while, and a permission or shadow mode may have kept the branches longer.
                await self._clean(repository, number, {"base_branch": job.request["base_branch"]}, cancels=False)
                return None
            facts = _begun(answer.replies[at].facts)
            policy = await self._engine.policies.of(repository, facts["base_branch"])
            result = await self._result(job, repository, facts, policy)
            ended = result is not None and result[0] is ReplyKind.TRY_ENDED
            if result is not None:
                await self._clean(repository, number, facts, cancels=ended)
        except WriteRefused:
            return Hold(TRY_AGAIN)
        await self._engine.write(lambda change: self._put(change, job, policy, at, facts, result))
        if result is not None:
            _log.info("tried", repository=repository.full_name, number=number, result=result[0].value)
            return None
        return Hold(min(_LONGEST, _FIRST * 2 ** min(job.claims, 8)))

    async def give_up(self, job: Job) -> Hold | None:
        """End the reply to a test whose job failed for good, until a retry, and clean up. Raises GitHubError."""
        repository, number, answer = await self._read(job)
        if answer is None or (at := _place_of(answer.replies)) is None:
            return None
        facts = dict(answer.replies[at].facts)
        policy = await self._engine.policies.of(repository, facts["base_branch"])
        async with self._engine.change() as change:
            result = ReplyKind.TRY_ENDED, "IMQ gave up, as every attempt failed"
            await self._put(change, job, policy, at, facts | {"gave_up": True}, result)
        try:
            await self._clean(repository, number, facts, cancels=True)
        except WriteRefused:
            return Hold(TRY_AGAIN)
        return None

    async def _read(self, job: Job) -> tuple[Repository, int, CommandReply | None]:
        repository, number = Repository(**job.request["repository"]), job.request["number"]
        async with self._engine.store.reading() as tx:
            answer = await tx.answers.find(repository.id, number, comment_id=job.request["comment"])
        return repository, number, answer

    async def _result(self, job: Job, repository: Repository, facts: dict[str, Any], policy: Policy) -> _Ended | None:
        """Do the next step; GitHub's refusal is a result, too. Raises Refused for what may pass."""
        try:
            return await self._step(repository, job.request["number"], facts, policy)
        except (Forbidden, Invalid, MergeError, NotFound) as refusal:
            believe(refusal, job)
            return ReplyKind.TRY_ENDED, f"GitHub refused it: {refusal.message}"

    async def _step(self, repository: Repository, number: int, facts: dict[str, Any], policy: Policy) -> _Ended | None:
        """Do the next step, and note it in `facts`; return the result, if there is one.

        While its checks run, the pull request is read only if a webhook says that it changed.
        """
        github = self._engine.github
        required = run_checks(await github.branch_rules(repository, facts["base_branch"]), policy)
        result = await self._judged(repository, facts, required, policy) if "candidate" in facts else None
        if "candidate" in facts and result is None and not await self._has_changed(repository, number, facts):
            return None
        pull = await github.pull_request(repository, number)
        if (why := _withdrawn(pull, facts)) is not None:
            entry = await self._engine.store.read(lambda tx: tx.entries.find(repository.id, number))
            is_own = pull.open and entry is not None and pull.head_sha in known_heads(entry, ())
            return ReplyKind.TRY_ENDED, "IMQ updated the branch, since it is queued" if is_own else why
        return result if "candidate" in facts else await self._begin(repository, pull, facts, required, policy)

    async def _has_changed(self, repository: Repository, number: int, facts: dict[str, Any]) -> bool:
        """Whether the newest webhooks about the pull request, of one second, show another state than the tested one."""
        subject = of_pull(number)
        since = datetime.fromisoformat(facts["since"])
        async with self._engine.store.reading() as tx:
            known = (await tx.known.about(repository.id, [subject], since=since)).get(subject, ())
        states = [each.statement for each in known if isinstance(each.statement, PullRequestState)]
        newest = max((each.updated_at for each in states), default=None)
        tested = (True, facts["head"], facts["base_branch"])
        return any((each.open, each.head_sha, each.base) != tested for each in states if each.updated_at == newest)

    async def _begin(
        self,
        repository: Repository,
        pull: PullRequest,
        facts: dict[str, Any],
        required: frozenset[RequiredCheck],
        policy: Policy,
    ) -> _Ended | None:
        """Build the candidate, and start CI on it."""
        github, base = self._engine.github, pull.base_branch
        tip = await github.branch_tip(repository, base)
        if tip is None:
            return ReplyKind.TRY_ENDED, "the base branch is gone"
        async with self._engine.store.reading() as tx:
            queue = await tx.queues.find(repository.id, base)
            ahead = await tx.entries.of_queue(queue.id) if queue is not None and facts["on_queue"] else ()
        choice = await self._choice(repository, pull, tip.sha, required, policy)
        trigger = await self._known_trigger(queue, policy) or (None if choice is None else choice.trigger)
        if trigger is None:
            why = "nothing is proved to start CI on a branch of IMQ (imq doctor says what lacks)"
            return ReplyKind.TRY_ENDED, why
        own = f"{repository.full_name}:"
        # A fork's commits get no branch of the repository here, as CI has its secrets there.
        earlier = [each for each in ahead if each.number != pull.number and (each.head_branch or "").startswith(own)]
        before = [(f"#{each.number}", each.head_sha) for each in earlier]
        facts["on"] = " + ".join((f"{base}@{tip.sha[:_SHORT]}", *(name for name, _ in before)))
        for branch in try_branches(base, pull.number):
            # A process that died may have left it at any commit.
            if not await self._cleanup.delete_own(repository, branch, facts.get("built")):
                return ReplyKind.TRY_ENDED, f"the branch {branch} exists, and nothing proves that IMQ made it"
        if (conflict := await self._build(repository, pull, tip.sha, before, facts)) is not None:
            return ReplyKind.TRY_ENDED, conflict
        if (built := facts["built"]) == tip.sha:
            return ReplyKind.TRY_ENDED, f"{base} contains it already"
        skipped = () if choice is None else tuple(each.name for each in choice.pull_request_checks)
        workflows = () if choice is None else choice.workflows
        facts |= {"draft": await self._publish(repository, pull, built, trigger, workflows), "candidate": built}
        facts |= {"skipped": list(skipped), "published": self._engine.clock.now().isoformat()}
        return None

    async def _known_trigger(self, queue: Queue | None, policy: Policy) -> CandidateTrigger | None:
        """Return what has started CI for the trains of this queue, if it has any."""
        if queue is None or not policy.trains.enabled:
            return None
        async with self._engine.store.reading() as tx:
            return from_json((await tx.trains.get(queue.id)).memory).trigger

    async def _choice(
        self, repository: Repository, pull: PullRequest, tip: str, required: frozenset[RequiredCheck], policy: Policy
    ) -> "TriggerChoice | None":
        from queue_engine.workflows.event_context import CandidateContext

        branch, _ = try_branches(pull.base_branch, pull.number)
        context = CandidateContext(repository.full_name, pull.base_branch, branch, pull.default_branch)
        wanted = policy.trains.candidates if policy.trains.enabled else Candidates.AUTO
        try:
            return await choice_at(self._engine.github, repository, tip, required, context, wanted)
        except Forbidden:
            return None

    async def _build(
        self,
        repository: Repository,
        pull: PullRequest,
        tip: str,
        ahead: Sequence[tuple[str, str]],
        facts: dict[str, Any],
    ) -> str | None:
        """Merge the heads onto the tip, on a branch of its own; return which conflict ended that, or None.

        `facts` has its last commit: where reads do not show the branch yet, IMQ deletes it by that.
        """
        github, (_, branch) = self._engine.github, try_branches(pull.base_branch, pull.number)
        await self._create(repository, branch, tip)
        facts["built"] = tip
        on = f"{pull.base_branch}@{tip[:_SHORT]}"
        for name, head in (*ahead, ("", pull.head_sha)):
            try:
                merged = await github.merge_into(repository, branch, head, f"Try #{pull.number}")
            except HeadConflict:
                return f"{name}, which is queued, has a conflict with {on}" if name else f"it has a conflict with {on}"
            if merged is not None:
                facts["built"] = merged.sha
            on = f"{on} + {name}"
        return None

    async def _create(self, repository: Repository, branch: str, tip: str) -> None:
        try:
            await self._engine.github.create_branch(repository, branch, tip)
        except Invalid as refusal:
            if EXISTS not in refusal.message.lower():
                raise
            raise StaleRead("the branch of a test exists, and reads do not show it yet") from refusal

    async def _publish(
        self,
        repository: Repository,
        pull: PullRequest,
        candidate: str,
        trigger: CandidateTrigger,
        workflows: Sequence[str],
    ) -> int | None:
        """Push the candidate's branch, and start CI on it; the number of the draft, if it needs one."""
        github, (branch, _) = self._engine.github, try_branches(pull.base_branch, pull.number)
        await self._create(repository, branch, candidate)
        if trigger is CandidateTrigger.PULL_REQUEST:
            title = f"Candidate of IMQ for {pull.base_branch}: a test of one pull request"
            body = f"IMQ tests `{pull.number}`. IMQ closes this draft itself; merge nothing here."
            return await github.open_draft(repository, branch, pull.base_branch, title, body)
        if trigger is CandidateTrigger.DISPATCH:
            for path in dict.fromkeys(workflows):
                await github.dispatch_workflow(repository, path, branch, {})
        return None

    async def _judged(
        self, repository: Repository, facts: dict[str, Any], required: frozenset[RequiredCheck], policy: Policy
    ) -> _Ended | None:
        """Judge the checks of the candidate; None while they run."""
        reports = await self._engine.github.check_reports(repository, facts["candidate"], required)
        counting = frozenset(each for each in required if each.name not in facts["skipped"])
        verdict = judge(counting, reports, policy.checks.ignored)
        if verdict.state is CheckState.FAILED:
            return ReplyKind.TRY_FAILED, ", ".join(dict.fromkeys(each.name for each in verdict.failed))
        if verdict.state is CheckState.PASSED:
            return ReplyKind.TRY_PASSED, ""
        limit = min(policy.timeouts.run, _LIMIT)
        if self._engine.clock.now() - datetime.fromisoformat(facts["published"]) < limit:
            return None
        why = "its checks did not end in time" if verdict.reported else "no check reported on it"
        return ReplyKind.TRY_ENDED, why

    async def _clean(self, repository: Repository, number: int, facts: dict[str, Any], *, cancels: bool) -> None:
        """Delete branches, close the draft and, with `cancels`, end workflow runs.

        What GitHub refuses for now is left to the job of lost branches: this one would keep others from a test.
        """
        branches = try_branches(facts["base_branch"], number)
        if cancels and "candidate" in facts:
            await self._cleanup.cancel_workflows(repository, facts["candidate"], branches)
        drafts = [facts["draft"]] if facts.get("draft") is not None else []
        if await self._cleanup.remove(repository, branches, drafts, made=facts.get("built")):
            await self._engine.write(lambda change: request_lost(change, repository, after=_ENDED))

    async def _put(
        self,
        change: Change,
        job: Job,
        policy: Policy,
        at: int,
        facts: dict[str, Any],
        result: _Ended | None,
    ) -> None:
        """Store the state of the test; with a result the comment shows this reply, also after later ones.

        The history keeps the result when a later reply or a change of the queue replaces it.
        """
        repository, number = Repository(**job.request["repository"]), job.request["number"]
        # Later commands of the same comment may have got their replies since.
        answer = await change.tx.answers.lock(repository.id, number, job.request["comment"])
        if answer is None:
            return
        reply = answer.replies[at].model_copy(update={"code": ReplyKind.TRYING, "facts": facts})
        if result is not None:
            kind, detail = result
            reply = reply.model_copy(update={"code": kind, "facts": facts | {"detail": detail}})
        replies = (*answer.replies[:at], reply, *answer.replies[at + 1 :])
        if replies == answer.replies:
            return
        if result is not None:
            queue = await change.tx.queues.find_or_create(repository, facts["base_branch"], change.now)
            data = {name: reply.facts[name] for name in ("head", "on", "detail")}
            outcome = reply.code.value.removeprefix("try_")
            await change.record("tried", queue, number=number, data=data | {"outcome": outcome})
        changed = answer.model_copy(update={"replies": replies, "at": answer.at if result is None else change.now})
        await change.tx.answers.put(repository.id, number, job.request["comment"], changed)
        await notices.announce_reply(
            change, repository, number, base_branch=facts["base_branch"], head_sha=facts["head"], policy=policy
        )


def _place_of(replies: Sequence[Reply]) -> int | None:
    """Return which reply is that of a test: one under way, or one that a retry of its job continues."""
    return next(
        (at for at, each in enumerate(replies) if each.code is ReplyKind.TRYING or "gave_up" in each.facts), None
    )


def _begun(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of a test to continue; of one that IMQ gave up, what it began with."""
    gone = {"gave_up", "detail", "candidate", "published", "draft", "skipped"} if "gave_up" in facts else set[str]()
    return {name: value for name, value in facts.items() if name not in gone}


def _withdrawn(pull: PullRequest, facts: dict[str, Any]) -> str | None:
    """Return why a test has no object any more."""
    if not pull.open:
        return "the pull request was merged" if pull.merged else "the pull request was closed"
    if pull.head_sha != facts["head"]:
        return "somebody pushed to the pull request"
    return "somebody changed the base branch" if pull.base_branch != facts["base_branch"] else None
