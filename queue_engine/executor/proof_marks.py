"""Refs that say of a tree that it was tested, so that workflows on the base need not test it again.

The ref's name has the tree, and its target, the mark, says for which branch, and by which checks. It is written before
the landing, because the push of the landing starts the workflows. It says nothing of the landing itself, so that a
process that dies in between leaves no lie. IMQ stores what it writes before it does, and deletes the ref after 14 days.
Nothing waits for a ref: where GitHub refuses it, the workflows test the tree again.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

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
from queue_engine.rules.proof import is_marked, mark_text, mark_tree, object_name
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
    engine: Engine, queue: Queue, tree: str | None, proof: LandingProof | None, policy: Policy
) -> None:
    """Have a ref say that this tree was tested, if the checks that the configuration names passed on it.

    At most one request; none where the ref is there, or the configuration names no check. Never raises GitHubError.
    """
    checks = policy.merge.tested_refs
    if tree is None or not is_marked(proof, checks):
        return
    repository, text, now = queue.repository, mark_text(queue.base_branch, checks), engine.clock.now()
    async with engine.change() as change:
        former = await change.tx.proof_marks.of_tree(repository.id, tree)
        mark = ProofMark(repository.id, tree, object_name(text), now + KEPT)
        if former is not None and former.mark == mark.mark and former.ref is not None:
            await change.tx.proof_marks.save(replace(mark, ref=former.ref, object=former.object))
            return
        await change.tx.proof_marks.save(mark)
    try:
        ref, target = await engine.github.mark_tested(repository, tree, text)
    except GitHubError as error:
        _log.warning("tested_ref_refused", repository=repository.full_name, tree=tree, error=str(error))
        return
    async with engine.change() as change:
        await change.tx.proof_marks.written(repository.id, tree, ref, target)


async def schedule_expiry(change: Change) -> None:
    """Enqueue the job of each repository with refs that have expired."""
    for repository_id in await change.tx.proof_marks.with_expired(change.now):
        await change.tx.jobs.enqueue_once(
            kind=EXPIRE_JOB,
            request={"repository_id": repository_id},
            process_id=f"{EXPIRE_JOB}:{repository_id}",
            now=change.now,
            priority=-1,
        )


async def delete_expired(engine: Engine, job: Job) -> Hold | None:
    """Delete the oldest refs that have expired; a hold if more are left, or GitHub refuses. Raises GitHubError."""
    async with engine.store.reading() as tx:
        repository = await tx.queues.repository_by_id(int(job.request["repository_id"]))
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
    async with engine.change() as change:
        await change.tx.proof_marks.remove(found)
    return Hold(_NEXT) if len(found) == _AT_ONCE else None


async def _delete(engine: Engine, repository: Repository, found: Sequence[ProofMark]) -> None:
    """Delete the refs by one request, each as IMQ left it; one by one where that fails."""
    github = engine.github
    refs = {each.ref or f"{REFS}{each.tree}": each.object or each.mark for each in found}
    try:
        await github.update_refs(repository, [BranchUpdate(ref, before=it, after=None) for ref, it in refs.items()])
    except (Forbidden, HeadConflict, Invalid, MergeError):
        # One is gone or elsewhere, GitHub's GraphQL takes no such refs, or there is none.
        for ref, target in refs.items():
            if (now_at := await github.ref_target(repository, ref)) == target:
                await github.delete_ref(repository, ref)
            elif now_at is not None:
                _log.warning("tested_ref_moved", repository=repository.full_name, ref=ref, target=now_at)
    for each in [one for one in found if one.ref is None]:
        # The answer was lost, and it may be a branch: IMQ's own commit has the mark alone.
        tip = await github.ref_target(repository, branch := f"{BRANCHES}{each.tree}")
        if tip is not None and (await github.commit(repository, tip)).tree == mark_tree(each.mark):
            await github.delete_ref(repository, branch)
