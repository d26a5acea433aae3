"""Open the revert of a landed pull request as a pull request, and queue it as a hotfix through the same gate.

GitHub makes the commit. The timeline has which pull request reverts which, and the revert's description a mark, by
which a job that died between the two finds it. Who asks for a revert consents to the commit that GitHub made for it,
or that IMQ made of that one, and to no push of others.
"""

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import structlog

from queue_engine.admission.case import Case, InOrder
from queue_engine.admission.enqueue import enqueue
from queue_engine.admission.new_entries import REVERT_MARK
from queue_engine.admission.rejection import RejectionError, assert_may_queue
from queue_engine.config.merge_commit import without_mentions, without_skips
from queue_engine.core.jobs.idempotency import NewKey
from queue_engine.core.jobs.job import Job
from queue_engine.domain.consent import ConsentKind
from queue_engine.domain.culprit import REVERTED
from queue_engine.domain.errors import (
    Forbidden,
    HeadConflict,
    Invalid,
    MergeError,
    NotFound,
    RequestOrderError,
    StaleRead,
    Unavailable,
)
from queue_engine.domain.facts import Commit, PullRequest, Snapshot
from queue_engine.domain.model import EntryOrder, Repository
from queue_engine.domain.policy import CulpritPolicy
from queue_engine.domain.port import BranchUpdate
from queue_engine.domain.reasons import Reason
from queue_engine.effects.context import Engine
from queue_engine.effects.landings import announce_culprit
from queue_engine.effects.notices import announce_revert
from queue_engine.rules.consent import made_by
from queue_engine.store import Transaction

_log = structlog.get_logger("imq.reverts")

_AT_MOST, _AT_MOST_IN = 3, timedelta(hours=1)
"""The most reverts in a repository that no one asked for, and in what time."""
_HOTFIX = EntryOrder(hotfix=True, preempts=True, fixes_base=True)
_AGAIN = timedelta(seconds=5)
"""When a job asks again whether another request has opened the revert."""
_MOST_RELANDS = 3
"""How often an author who may not queue may have a revert reverted."""


@dataclass(frozen=True, slots=True)
class Revert:
    """What became of a request to revert a pull request."""

    number: int | None = None
    """The pull request that reverts it; None: GitHub opened none."""
    head_sha: str | None = None
    """The commit that GitHub made for it; None: a job died before it stored that."""
    replaced: str | None = None
    """The commit that IMQ replaced by that, if it did."""
    detail: str = ""
    """Why GitHub opened none, in its own words."""
    may_pass: bool = False
    """Whether those words explain nothing: no source quotes those for a conflict."""
    refused: RejectionError | None = None
    """Why it is not in the queue, if it is not."""
    landed: bool = True
    """Whether what is to be reverted has landed."""


@contextmanager
def _lagging() -> Iterator[None]:
    """Have the caller read again what GitHub has just made, and reads do not show yet."""
    try:
        yield
    except NotFound as missing:
        raise StaleRead("reads do not show the revert yet") from missing


async def request_revert(
    engine: Engine,
    repository: Repository,
    number: int,
    in_order: InOrder | None = None,
    *,
    by: str,
    reland: bool = False,
    taken: Snapshot | None = None,
) -> Revert:
    """Revert a landed pull request for a person who may queue it; or with `reland` revert its revert, unqueued.

    The author may reland three times, too. `taken` is a snapshot that the caller has just read. Raises RejectionError
    and GitHubError, and RequestOrderError while an earlier request has no answer.
    """
    if taken is None:
        taken = await engine.github.snapshot(repository, number, login=by)
    pull, title, last = taken.pull, None, None
    async with engine.store.reading() as tx:
        if reland:
            last = await revert_of(tx, repository.id, number)
        events = () if last is None else await tx.timeline.of_pull_request(repository.id, last)
    relands = [each.data["revert"] for each in events if each.event == REVERTED]
    is_author = reland and by.casefold() == pull.author.casefold()
    if is_author and len(relands) >= _MOST_RELANDS:
        is_author = (await engine.github.pull_request(repository, relands[-1])).open
    if not is_author:
        policy = await engine.policies.of(repository, pull.base_branch)
        assert_may_queue(policy, by, taken.permission or await engine.github.permission(repository, by))
    if reland:
        title = f"Reland: {pull.title}"
        if last is None:
            return Revert(landed=False)
        pull = await engine.github.pull_request(repository, last)
    if not pull.merged:
        return Revert(landed=False)
    if reland:
        return await open_revert(engine, repository, pull, by=by, title=title)
    return await queue_revert(engine, repository, pull, by=by, in_order=in_order)


async def queue_revert(
    engine: Engine,
    repository: Repository,
    pull: PullRequest,
    *,
    by: str,
    automatic: bool = False,
    in_order: InOrder | None = None,
) -> Revert:
    """Open a revert and queue it, on behalf of this person. Raises GitHubError and RequestOrderError."""
    opened = await open_revert(engine, repository, pull, by=by)
    if (number := opened.number) is None:
        return opened
    with _lagging():
        taken = await engine.github.snapshot(repository, number, login=by)
    if opened.replaced is not None and taken.pull.head_sha == opened.replaced:
        raise StaleRead("reads do not show the commit of the revert yet")
    entry = await engine.store.read(lambda tx: tx.entries.find(repository.id, number))
    if entry is not None or not taken.pull.open:
        return opened
    if taken.pull.head_sha != (opened.head_sha or await _made_head(engine, repository, taken.pull)):
        return replace(opened, refused=RejectionError(Reason.HEAD_CHANGED))
    source = ConsentKind.REVERT if automatic else ConsentKind.COMMAND
    case, head = Case(repository, number, in_order=in_order), taken.pull.head_sha
    try:
        await enqueue(engine, case, by=by, head_sha=head, taken=taken, may_wait=True, source=source, order=_HOTFIX)
    except RejectionError as refused:
        return replace(opened, refused=refused)
    return opened


async def _made_head(engine: Engine, repository: Repository, revert: PullRequest) -> str | None:
    """Return the commit that IMQ had made for a revert, where a job died before it stored that; None: not proved.

    GitHub's history of the branch proves it: all its moves are IMQ's. Commits prove nothing, as people choose what
    theirs say.
    """
    pushes = await engine.github.head_pushes(repository, revert)
    own = bool(pushes) and made_by(await engine.github.own_login(), pushes, pushes[0].after)
    return pushes[0].after if own else None


async def revert_culprit(engine: Engine, job: Job) -> None:
    """Open a culprit's revert in the name of who queued it, of no revert, three an hour. Raises GitHubError."""
    async with engine.store.reading() as tx:
        queue = await tx.queues.get(int(job.request["queue_id"]))
        assert queue is not None
        repository = queue.repository
        recent = await tx.culprits.since(repository.id, engine.clock.now() - _AT_MOST_IN)
        search = next((each for each in await tx.culprits.of_queue(queue.id) if each.id == job.request["search"]), None)
        number = None if search is None else search.culprit
        landed = () if number is None else await tx.landings.of_pull_request(repository.id, number)
    by = (
        next((each["by"] for each in landed[-1].record["members"][-1]["consents"] if each["by"]), None)
        if landed
        else None
    )
    policy = await engine.policies.of(repository, queue.base_branch)
    many = sum(each.revert is not None for each in recent) >= _AT_MOST
    if search is None or number is None or by is None or many or policy.culprit is not CulpritPolicy.REVERT:
        return
    pull = await engine.github.pull_request(repository, number)
    commit = await engine.github.commit(repository, landed[-1].sha)
    if is_revert(pull, commit.message, await engine.github.own_login()):
        return
    done = await queue_revert(engine, repository, pull, by=by, automatic=True)
    if done.number is None or done.refused is not None:
        # The culprit's comment still says what people can do.
        why = done.detail if done.refused is None else done.refused.reason.value
        _log.warning("no_revert", repository=repository.full_name, number=number, error=why)
        return
    async with engine.change() as change:
        search = replace(search, revert=done.number)
        await change.tx.culprits.save(search)
        await announce_culprit(change, queue, search, policy)


@asynccontextmanager
async def _alone(engine: Engine, repository: Repository, number: int) -> AsyncIterator[None]:
    """Have one job or call at a time open the revert of a pull request. Raises RequestOrderError in the others.

    After a lost answer they wait for the lease: GitHub may have opened it, and lists may not show it for seconds.
    """
    its_own = f"{repository.id}:{number}"
    async with engine.store.transaction() as tx:
        begun = await tx.keys.begin(
            REVERTED, its_own, endpoint=REVERTED, request_hash="", now=engine.clock.now(), lease=engine.lease
        )
    if not isinstance(begun, NewKey):
        raise RequestOrderError("another request opens the revert", retry_after=_AGAIN)
    unsure = False
    try:
        yield
    except Unavailable as lost:
        unsure = not isinstance(lost, StaleRead)
        raise
    finally:
        if not unsure:
            await engine.store.write(lambda tx: tx.keys.abandon(begun))


async def open_revert(
    engine: Engine, repository: Repository, pull: PullRequest, *, by: str, title: str | None = None
) -> Revert:
    """Open a revert, or return the open one that IMQ opened before. Raises GitHubError and RequestOrderError."""
    async with _alone(engine, repository, pull.number):
        github, mark = engine.github, REVERT_MARK.format(number=pull.number)
        opened = await github.latest_pull_requests(repository)
        own_login = await github.own_login()
        last = await engine.store.read(lambda tx: _last_revert(tx, repository.id, pull.number))
        known: int | None = last.get("revert")
        found = next((each.number for each in opened if mark in each.body and each.author == own_login), None)
        if known is not None and found is None:
            with _lagging():
                former = await github.pull_request(repository, known)
            found = known if former.open else None
        head: str | None = last.get("head") if found == known else None
        replaced: str | None = last.get("replaced") if found == known else None
        made: Commit | None = None
        if found is None:
            body = f"Reverts #{pull.number}, for `{by}`.\n\n{mark}"
            try:
                title = _quotable(title or f'Revert "{pull.title}"')
                found, branch, made = await github.revert_pull_request(repository, pull.node_id, title, body)
            except (Forbidden, Invalid) as refusal:
                return Revert(detail=refusal.message, may_pass=isinstance(refusal, Invalid))
        elif found != known:
            with _lagging():
                revert = await github.pull_request(repository, found)
                head, branch = await _made_head(engine, repository, revert), revert.head_branch
                made = None if head is None else await github.commit(repository, head)
        if made is not None:
            head = await _with_ci(engine, repository, branch, made)
            replaced = None if head == made.sha else made.sha
        if found != known:
            data = {"by": by, "revert": found} | ({} if head is None else {"head": head})
            data |= {} if replaced is None else {"replaced": replaced}
            policy = await engine.policies.of(repository, pull.base_branch)
            async with engine.change() as change:
                queue = await change.tx.queues.find_or_create(repository, pull.base_branch, change.now)
                await change.record(REVERTED, queue, number=pull.number, data=data)
                await announce_revert(change, repository, pull.number, found, policy)
        return Revert(found, head, replaced)


def _quotable(text: str) -> str:
    return without_mentions(without_skips(text))


async def _with_ci(engine: Engine, repository: Repository, branch: str, made: Commit) -> str:
    """Replace a revert's commit that quotes words that skip CI, or mentions people, by one without. Returns its head.

    No source says whether the message of the commit is that of the request or quotes the one that landed. What GitHub
    refuses here leaves the revert as it is.
    """
    github, message = engine.github, _quotable(made.message)
    if message == made.message:
        return made.sha
    with suppress(Forbidden, HeadConflict, Invalid, MergeError, NotFound):
        commit = await github.create_commit(repository, made.tree, made.parents, message)
        await github.update_refs(repository, [BranchUpdate(branch, before=made.sha, after=commit.sha, force=True)])
        return commit.sha
    return made.sha


async def revert_of(tx: Transaction, repository_id: int, number: int) -> int | None:
    """Return the last pull request by which IMQ reverts this one."""
    return (await _last_revert(tx, repository_id, number)).get("revert")


async def _last_revert(tx: Transaction, repository_id: int, number: int) -> Mapping[str, Any]:
    """Return the facts of the last revert of a pull request; empty if there is none."""
    events = await tx.timeline.of_pull_request(repository_id, number)
    return next((each.data for each in reversed(events) if each.event == REVERTED), {})


_REVERTS = re.compile(r"^Reverts [\w./-]*#\d+|^This reverts (?:commit|pull request) ", re.MULTILINE)
"""Sentences of GitHub's descriptions, and of `git revert`."""


def is_revert(pull: PullRequest, message: str, own_login: str) -> bool:
    """Whether a landed pull request may revert another one: IMQ reverts none by itself.

    What IMQ opened and what landed is a revert, or lands one's change again. Of others nothing is proved, so each sign
    counts: GitHub's own title, branch and description, and git's sentence in the description or in the landed commit.
    """
    titled = pull.title.startswith(('Revert "', "Reland: ")) or pull.head_branch.startswith("revert-")
    return titled or pull.author == own_login or any(map(_REVERTS.search, (pull.body, message)))
