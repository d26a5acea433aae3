"""Store the record of a landing, signed, in its transaction; tell on which branches pull requests are meant to land."""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any

from queue_engine.config.model import Policy
from queue_engine.domain.consent import HeadConsent
from queue_engine.domain.culprit import CULPRIT, CulpritRecord
from queue_engine.domain.errors import InvariantError
from queue_engine.domain.facts import Commit, MergeMethod
from queue_engine.domain.landing_record import (
    LandingProof,
    LandingRecord,
    LandingResult,
    checks_data,
    is_proved,
    result_of,
)
from queue_engine.domain.model import WHOLE_QUEUE, Entry, Queue, Repository
from queue_engine.domain.policy import CulpritPolicy
from queue_engine.domain.run import Run, RunMember
from queue_engine.effects import notices
from queue_engine.effects.context import Change, Engine
from queue_engine.rules.proof import mark_of
from queue_engine.rules.stacks import is_ruled
from queue_engine.store.culprits import as_data

CULPRIT_JOB = "find_culprit"
"""Kind of the job that follows the search of one queue."""


async def record_landing(
    change: Change,
    entry: Entry,
    landed: Commit,
    policy: Policy,
    run: Run | None = None,
    *,
    untested: Sequence[str] = (),
) -> bool:
    """Store what landed an entry, with the proof and the consents; returns whether CI tested exactly this tree.

    `run` is the train's, in which the entry is a member; `untested` are files that differ and need no test.
    """
    consents = await change.tx.consents.of_landing(entry)
    record = landing_data(entry, landed, run, consents, untested) | {
        "landed": {"commit": landed.sha, "tree": landed.tree, "at": _instant(change.now)}
    }
    if policy.merge.tested_refs:
        its_own = mark_of(entry.base_branch, policy.merge.tested_refs)
        mark = await change.tx.proof_marks.of_tree(entry.repository.id, landed.tree, its_own)
        if mark is not None and mark.answered:
            record["ref"] = {"name": mark.ref.removesuffix(f"/{mark.tree}")} | (
                {} if mark.object == record["candidate"]["commit"] else {"object": mark.object}
            )
    if change.sign is None:
        await change.tx.landings.add(record, change.now, None, ())
        return is_proved(record)
    # The key that this process used last is right nearly always; the second time it is read.
    for is_read in (False, True):
        if await change.tx.landings.add(record, change.now, *await change.sign(change.tx, record, change.now, is_read)):
            return is_proved(record)
    raise InvariantError("the key that signs landings cannot be stored")


async def note_failure(engine: Engine, repository_id: int, sha: str, check: str) -> None:
    """Begin a search if a check failed on the commit of a landing, for which it had passed; sends no request."""
    async with engine.store.reading() as tx:
        landed = [each for each in await tx.landings.of_commit(repository_id, sha) if check in checks_of(each)]
        queue = await tx.queues.find(repository_id, landed[-1].base_branch) if landed else None
    if queue is not None:
        policy = await engine.policies.of(queue.repository, queue.base_branch)
        await engine.write(lambda change: search_later(change, queue, policy, sha, check))


async def search_later(change: Change, queue: Queue, policy: Policy, sha: str, check: str) -> None:
    """Enqueue the job that begins a search, where that is configured."""
    if policy.culprit is not CulpritPolicy.OFF:
        await follow_search(change, queue.id, sha, check)


async def follow_search(change: Change, queue_id: int, sha: str, check: str) -> None:
    """Enqueue the job that follows a queue's search, or begins one for a check that failed on this commit."""
    await change.enqueue(CULPRIT_JOB, {"queue_id": queue_id, "sha": sha, "check": check}, queue_id, once=True)


def process_of(queue_id: int) -> str:
    """Return the process id of the jobs of this queue's search."""
    return f"{CULPRIT_JOB}:{queue_id}"


def checks_of(landed: LandingRecord) -> Collection[str]:
    """Return the names of the checks that passed for a landing."""
    return {name for group in landed.record.get("checks", ()) for name in group.get("names", ())}


async def announce_culprit(change: Change, queue: Queue, search: CulpritRecord, policy: Policy) -> None:
    """Record what a search found, for pages, sinks and programs; a culprit's comment names it, too."""
    number = search.culprit
    await change.record(CULPRIT, queue, number=WHOLE_QUEUE if number is None else number, data=as_data(search))
    landed = () if number is None else await change.tx.landings.of_pull_request(queue.repository.id, number)
    if landed:
        await notices.announce_culprit(change, queue.repository, landed[-1], search, policy)


def landing_data(
    entry: Entry, landed: Commit, run: Run | None, consents: Sequence[HeadConsent], untested: Sequence[str]
) -> dict[str, Any]:
    """Return the record of a landing as JSON data, but for what landed."""
    members = [] if run is None else [each for each in run.members if each.number == entry.number]
    member = members[0] if members else None
    proof, tested = entry.run.proof, entry.run.tested_tree
    if run is not None and member is not None:
        proof = run.proof
    verdict = result_of(landed.tree, tested, untested, proof)
    method = _method(landed, member, proof)
    moved = member is not None and landed.sha == member.commit
    background = "background" if entry.run.merge_uuid is not None else "merge"
    last = run.members[-1] if run is not None and member is not None else None
    candidate = (run.candidate if run is not None and last is not None else None) or entry.head_sha
    tree = tested if last is None else last.tree
    return {
        "repository": {"id": entry.repository.id, "name": entry.repository.full_name},
        "base": {"branch": entry.base_branch, "before": _before(entry, landed, method, verdict["result"])},
        "candidate": {
            "commit": candidate,
            "tree": tree,
            **({} if run is None or last is None else {"run": run.id}),
        },
        "method": None if method is None else method.value,
        "how": "base_move" if moved else background,
        "members": [
            *_earlier(run, entry.number),
            _member(entry, consents) | ({} if member is None or member.tree == tree else {"tree": member.tree}),
        ],
        "checks": checks_data(() if proof is None else proof.checks, candidate),
        "hashes": {
            "rules": None if proof is None else proof.rules,
            "configuration": None if proof is None else proof.configuration,
        },
        "verdict": verdict,
    }


def _method(landed: Commit, member: RunMember | None, proof: LandingProof | None) -> MergeMethod | None:
    """Return how the entry landed: only a merge makes a commit with two parents."""
    if len(landed.parents) > 1:
        return MergeMethod.MERGE
    return member.method if member is not None else None if proof is None else proof.method


def _before(entry: Entry, landed: Commit, method: MergeMethod | None, result: str) -> str | None:
    """Return the base's former tip; None if it is not certain.

    A rebase may make several commits, so that the parent of the last one is no tip: then the tip on which IMQ tested is
    certain only where the trees agree.
    """
    if method in (MergeMethod.MERGE, MergeMethod.SQUASH):
        return next(iter(landed.parents), None)
    return entry.run.base_tip if method is MergeMethod.REBASE and result == LandingResult.EQUAL else None


def _earlier(run: Run | None, number: int) -> list[dict[str, Any]]:
    """Return the members before this one; those of which each has a record of its own say no more here."""
    before = list[dict[str, Any]]()
    for each in run.members if run is not None else ():
        if each.number == number:
            return before
        before.append({"number": each.number, "head": each.head_sha, "tree": each.tree})
    return []


def _member(entry: Entry, consents: Sequence[HeadConsent]) -> dict[str, Any]:
    """Return the entry as the last member: with the newest consent to each head that counts."""
    newest = {each.head_sha: each for each in consents if each.base_branch == entry.base_branch}
    heads = dict.fromkeys((entry.queued_head, entry.head_sha))
    return {
        "number": entry.number,
        "head": entry.head_sha,
        "author": entry.author,
        "consents": [
            ({} if head == entry.head_sha else {"head": head})
            | {"by": each.by, "how": each.source.value, "at": _instant(each.at)}
            for head in heads
            if (each := newest.get(head)) is not None
        ],
    }


def _instant(at: datetime) -> str:
    """Return an instant as records have it, to the second, as GitHub has its own."""
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


async def is_landed_on(engine: Engine, repository: Repository, branch: str, default_branch: str) -> bool:
    """Whether pull requests are meant to land on this branch, although it may be the head of a pull request.

    So is the default branch, one that the configuration names, one with rules, and one whose queue IMQ has used.
    Raises GitHubError.
    """
    if branch == default_branch or await is_named_or_used(engine, repository, branch):
        return True
    return is_ruled(await engine.github.branch_rules(repository, branch))


async def is_named_or_used(engine: Engine, repository: Repository, branch: str) -> bool:
    """Whether the configuration names the branch, or its queue has entries, or IMQ has landed a pull request on it."""
    if (await engine.policies.of(repository, branch)).is_named:
        return True
    async with engine.store.reading() as tx:
        queue = await tx.queues.find(repository.id, branch)
        if queue is not None and await tx.entries.count(queue.id):
            return True
        return await tx.timeline.has_event(repository.id, branch, "landed")
