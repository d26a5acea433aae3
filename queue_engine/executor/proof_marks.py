"""Refs that say of a tree that it was tested, so that workflows on the base need not test it again.

The ref's name says everything: the mark, for which branch and by which checks, and the tree. It points at the tested
commit, which is there already. It is written before the landing, because the push of the landing starts the workflows.
It says nothing of the landing itself, so that a process that dies in between leaves no lie. IMQ stores what it writes
before it does, and deletes the ref after 14 days.
Nothing waits for a ref: where GitHub refuses it, the workflows test the tree again.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import structlog

from queue_engine.config.model import Policy
from queue_engine.core.concurrency.request_context import RequestPriority, working
from queue_engine.core.jobs.job import Hold, Job
from queue_engine.domain.errors import Forbidden, GitHubError, HeadConflict, Invalid, MergeError, NotFound, naming
from queue_engine.domain.landing_record import LandingProof
from queue_engine.domain.model import Queue, Repository
from queue_engine.domain.port import MARK_BRANCHES as BRANCHES
from queue_engine.domain.port import MARKS as REFS
from queue_engine.domain.port import BranchUpdate
from queue_engine.effects.context import Change, Engine
from queue_engine.rules.proof import is_marked, mark_of
from queue_engine.store.proof_marks import ProofMark

_log = structlog.get_logger("imq.proof_marks")

EXPIRE_JOB = "delete_proof_marks"
"""Kind of the job that deletes the refs of a repository that have expired."""

KEPT = timedelta(days=14)
_AT_ONCE = 100
"""How many refs one job deletes, in one request where GitHub's GraphQL takes them."""
_NEXT = timedelta(minutes=1)
_TRY_AGAIN = timedelta(days=1)


async def mark_tested(
    engine: Engine, queue: Queue, candidate: str, tree: str | None, proof: LandingProof | None, policy: Policy
) -> None:
    """Have a ref say that this candidate's tree was tested, if the checks that the configuration names passed on it.

    One request; none where the ref is there, or the configuration names no check. Two more, once for a repository, if
    GitHub takes no such refs. Never raises GitHubError.
    """
    checks = policy.merge.tested_refs
    if tree is None or not is_marked(proof, checks):
        return
    repository, mark, now = queue.repository, mark_of(queue.base_branch, checks), engine.clock.now()
    async with engine.change() as change:
        former = await change.tx.proof_marks.of_tree(repository.id, tree, mark)
        own = await change.tx.proof_marks.branch_commit(repository.id)
        # A former request whose answer was lost is made again as it was.
        wanted = replace(former or _mark(repository, tree, mark, candidate, own, now), expires_at=now + KEPT)
        await change.tx.proof_marks.save(wanted)
    if wanted.answered:
        return
    made: ProofMark | None = wanted
    try:
        made = await _create(engine, repository, wanted)
    except HeadConflict:
        # It is there, and says what is true. Without a record of its own IMQ may not have made it, and leaves it.
        if former is None:
            made = None
    except GitHubError as error:
        _log.warning("tested_ref_refused", repository=repository.full_name, tree=tree, error=str(error))
        return
    async with engine.change() as change:
        if made is None:
            await change.tx.proof_marks.remove([wanted])
        else:
            await change.tx.proof_marks.save(replace(made, answered=True))


def _mark(repository: Repository, tree: str, mark: str, candidate: str, own: str | None, now: datetime) -> ProofMark:
    """Return the mark at the candidate, or at IMQ's own commit where marks are branches."""
    start = REFS if own is None else BRANCHES
    return ProofMark(repository.id, tree, mark, f"{start}{mark}/{tree}", own or candidate, now + KEPT)


async def _create(engine: Engine, repository: Repository, wanted: ProofMark) -> ProofMark:
    """Create the ref; where GitHub takes no such ref, a branch. Raises GitHubError."""
    try:
        await engine.github.create_ref(repository, wanted.ref, wanted.object)
    except Invalid:
        if wanted.ref.startswith(BRANCHES):
            raise
    else:
        return wanted
    # A branch at the candidate would start its workflows again. All of them share one commit.
    own = (await engine.github.create_commit(repository, wanted.tree, (), "[skip ci] IMQ tested trees")).sha
    branch = replace(wanted, ref=f"{BRANCHES}{wanted.mark}/{wanted.tree}", object=own)
    await engine.write(lambda change: change.tx.proof_marks.save(branch))
    await engine.github.create_ref(repository, branch.ref, branch.object)
    return branch


async def schedule_expiry(change: Change) -> None:
    """Enqueue the job of each repository with refs that have expired."""
    for repository_id in await change.tx.proof_marks.with_expired(change.now):
        request = {"repository_id": repository_id}
        await change.enqueue(EXPIRE_JOB, request, repository_id, priority=-1, once=True)


async def delete_expired(engine: Engine, job: Job) -> Hold | None:
    """Delete the oldest refs that have expired; a hold if more are left, or GitHub refuses. Raises GitHubError."""
    async with engine.store.reading() as tx:
        repository = await tx.repositories.by_id(int(job.request["repository_id"]))
        assert repository is not None
        found = await tx.proof_marks.expired(repository.id, engine.clock.now(), at_most=_AT_ONCE)
    try:
        with working(RequestPriority.BACKGROUND), naming(f"the tested trees of {repository.full_name}"):
            await _delete(engine, repository, found)
    except Forbidden as refusal:
        _log.info("tested_refs_kept", repository=repository.full_name, error=str(refusal))
        return Hold(_TRY_AGAIN)
    except NotFound:
        pass  # The App was uninstalled, or the repository deleted.
    await engine.write(lambda change: change.tx.proof_marks.remove(found))
    return Hold(_NEXT) if len(found) == _AT_ONCE else None


async def _delete(engine: Engine, repository: Repository, found: Sequence[ProofMark]) -> None:
    """Delete the refs by one request, each as IMQ left it; one by one where that fails."""
    github = engine.github
    refs = {each.ref: each.object for each in found}
    try:
        await github.update_refs(repository, [BranchUpdate(ref, before=it, after=None) for ref, it in refs.items()])
    except (Forbidden, HeadConflict, Invalid, MergeError):
        # One is gone or elsewhere, GitHub's GraphQL takes no such refs, or there is none.
        for ref, target in refs.items():
            if (now_at := await github.ref_target(repository, ref)) == target:
                await github.delete_ref(repository, ref)
            elif now_at is not None:
                _log.warning("tested_ref_moved", repository=repository.full_name, ref=ref, target=now_at)
