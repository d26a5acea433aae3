"""Follow people who change their logins, and repositories and labels that are renamed.

Numbers are the identity of people and repositories. After a rename anybody can take the former login, so GitHub's
answer about that login may be about somebody else.
"""

from dataclasses import replace

import structlog

from queue_engine.domain.errors import Disorder, Forbidden, NotFound, Refused
from queue_engine.domain.facts import PullRequest, Snapshot
from queue_engine.domain.model import Entry, Repository
from queue_engine.domain.policy import has_label
from queue_engine.effects.context import Engine
from queue_engine.effects.labels import queued_by
from queue_engine.effects.notices import NOTICE_OF_STATUS, announce_progress

_log = structlog.get_logger("imq.renames")

_NOT_FOUND = 404


def is_somebody_else(entry: Entry, taken: Snapshot) -> bool:
    """Whether GitHub's answer about the login is not about the account that queued this entry."""
    return entry.queued_by_id is not None and taken.person_id != entry.queued_by_id


async def followed_login(engine: Engine, entry: Entry, taken: Snapshot | None) -> Entry | None:
    """Return the entry with the present login of who queued it, None if unchanged. Raises GitHubError, StaleRecord."""
    if taken is None or entry.queued_by_id is None or not is_somebody_else(entry, taken):
        return None
    login = await engine.github.login_of(entry.repository, entry.queued_by_id)
    if login is None or login == entry.queued_by:
        return None
    async with engine.change() as change:
        saved = await change.tx.entries.save(replace(entry, queued_by=login))
        await change.tx.queues.wake(entry.queue_id, change.now)
    _log.info("login_changed", repository=entry.repository.full_name, number=entry.number, by=login)
    return saved


def named_by(pull: PullRequest, repository: Repository) -> Repository:
    """Return the repository with the name that GitHub used in this pull request."""
    owner, _, name = pull.base_repository.partition("/")
    return replace(repository, owner=owner, name=name) if name else repository


async def remember_name(engine: Engine, repository: Repository) -> None:
    """Store the repository's new name, for its queues, entries and outbox items, too."""
    await engine.write(lambda change: change.tx.repositories.refresh(repository))
    _log.info("repository_renamed", repository=repository.full_name, id=repository.id)


async def present_repository(engine: Engine, repository: Repository) -> Repository | None:
    """Return a repository of which GitHub does not show something, by its present name and installation.

    IMQ may have learned both since; otherwise GitHub names a repository by its id. None: this installation does not
    have it any more, by GitHub's answer. Raises GitHubError.
    """
    known = await engine.store.read(lambda tx: tx.repositories.by_id(repository.id))
    if known not in (None, repository):
        return known
    try:
        found = await engine.github.repository(repository)
    except (NotFound, Forbidden, Refused) as error:
        if isinstance(error, Refused) and not await is_gone(engine, repository, error):
            raise
        return None
    named = replace(repository, owner=found.owner, name=found.name)
    if named != repository:
        await remember_name(engine, named)
    return named


async def is_gone(engine: Engine, repository: Repository, error: Refused) -> bool:
    """Whether the installation's own list, which GitHub answers, lacks a repository that GitHub does not show."""
    if error.disorder is Disorder.GONE:
        return True
    if error.status != _NOT_FOUND:
        return False
    listed = await engine.github.repositories(repository.installation_id)
    return repository.id not in {each.id for each in listed}


async def follow_label(
    engine: Engine,
    repository: Repository,
    former: str,
    label: str,
    *,
    by: str | None = None,
    delivery: str | None = None,
) -> None:
    """Keep the consent of a label that has another name now: its pull requests have it still.

    GitHub reports no change of these pull requests, and their history has the former name (tiangolo/issue-manager #9,
    aws-actions/stale-issue-cleanup #20). The new name queues others only if the configuration has it. No history names
    who renamed it: `by` comes from the webhook. Raises StaleRecord.
    """
    async with engine.store.reading() as tx:
        branches = {each.base_branch for each in await tx.entries.of_repository(repository.id)}
    policies = {branch: await engine.policies.of(repository, branch) for branch in sorted(branches)}
    async with engine.change() as change:
        tx = change.tx
        for entry in await tx.entries.of_repository(repository.id):
            policy = policies.get(entry.base_branch)
            trusted = frozenset(each for each in entry.trusted_labels if not has_label([each], [former]))
            if policy is None or trusted == frozenset(entry.trusted_labels):
                continue
            queuing = await queued_by(tx, repository.id, entry.number, entry.trusted_labels, policy)
            saved = await tx.entries.save(replace(entry, trusted_labels=tuple(sorted(trusted | {label}))))
            if not has_label([former], queuing):
                continue
            labels = sorted({label, *(each for each in queuing if not has_label([each], [former]))})
            data = {"by": by, "labels": labels}
            data |= {"label": label} if policy.has_trigger_label([label]) else {"unnamed": label}
            await change.record("label_renamed", saved, delivery=delivery, data=data)
            depth = await tx.entries.count(saved.queue_id)
            await announce_progress(change, saved, NOTICE_OF_STATUS[saved.status], policy, depth=depth)
            names = {"repository": repository.full_name, "number": saved.number, "label": label}
            _log.info("label_renamed", **names, former=former, by=by)
