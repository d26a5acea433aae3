"""P4: a bot that the configuration names may push to its own pull requests. Pure.

Dependabot and Renovate rebase what they opened: they make a new commit on top of the base's tip and push it by force.
GitHub names the pusher in the webhook as its sender, and in the activity of the branch as its actor: `dependabot[bot]`
(docs, "Automating Dependabot with GitHub Actions"; medassist-ng #779). After a comment such as `@dependabot rebase`,
the person who commented may be named instead (carbonintensityio/green-scheduler #232; slack-mcp-server #43 saw it after
an update by the API): then it is a person's push.
"""

from collections.abc import Sequence
from dataclasses import replace

from queue_engine.config.model import Policy
from queue_engine.domain.facts import HeadPush
from queue_engine.domain.model import Entry, EntryStatus
from queue_engine.domain.port import NO_BRANCH


def may_push(entry: Entry, login: str | None, policy: Policy) -> bool:
    """Return whether this login is a named bot, and opened the pull request itself."""
    return (
        login is not None
        and login.casefold() in policy.on_push.requeue_for
        and login.casefold() == entry.author.casefold()
    )


def known_heads(entry: Entry) -> frozenset[str]:
    """Return the head with consent, and IMQ's own updates of it."""
    heads = entry.queued_head, entry.head, entry.run.new_head if entry.run.new_head_is_ours else None
    return frozenset(head for head in heads if head is not None)


def keeps_position(entry: Entry, before: str | None) -> bool:
    """Return whether a named bot's push costs no run: the entry waits, and the push replaced the head that waits."""
    waits = entry.status is EntryStatus.PENDING and not entry.run.has_begun
    return waits and before is not None and before in known_heads(entry)


def with_pushed_head(entry: Entry, head: str) -> Entry:
    """Bind the head that a named bot pushed. It may contain the base's tip, so none is known that it lacks."""
    return replace(entry, queued_head=head, head=head, head_proved=True, updated_from=None, newer_tip=None)


def pushed_by(login: str, pushes: Sequence[HeadPush], entry: Entry, head: str) -> bool:
    """Return whether this login alone pushed all that came between the known head and this one.

    `pushes` are the moves of the branch, newest first.
    """
    return _alone(login, pushes, head, known_heads(entry))


def made_by(login: str, pushes: Sequence[HeadPush], tip: str) -> bool:
    """Return whether this login created the branch that ends with this tip, and no other account pushed to it."""
    return _alone(login, pushes, tip, frozenset({NO_BRANCH}))


def _alone(login: str, pushes: Sequence[HeadPush], head: str, known: frozenset[str]) -> bool:
    at = head
    for push in pushes:
        if push.after != at or push.by is None or push.by.casefold() != login.casefold():
            return False
        at = push.before
        if at in known:
            return True
    return False
