"""Facts from webhooks and answers to writes: plain data, stored as JSON by subject.

Each source states something, and `queue_engine.known` rejects reads that contradict the statement:

- `push`, or IMQ's landing: a branch moved from `before` to `after`. Rejected: a read that shows a former tip.
- `pull_request`: head, base, state, draft, labels, title, order, `updated_at`. Rejected: a read with an older
  `updated_at` and a differing field; one of the same second, for 12 s; one with a replaced head; one without a label
  just set.
- IMQ's own merges and labels. Rejected: a read that shows the pull request open; for 12 s the former label.
- `check_run` and `status`: a report. Rejected: a read without this report or a newer one.
- `pull_request_review`: a person's newest verdict. Rejected: a read with another verdict, for 12 s.
- `pull_request_review_thread`: a conversation is resolved, or open again. Rejected: a read that differs, for 12 s.
- The name of an object: the object exists. Rejected: a 404, for a minute.

Facts are only added, in the transaction that stores the delivery. IMQ draws conclusions when it compares a read, so
deliveries may come in any order. Facts count for a quarter of an hour, so a lost webhook delays nothing for longer.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from queue_engine.core.read_model import ReadModel

KEPT = timedelta(minutes=15)
"""How long a fact contradicts reads. A lost webhook, such as one of a forced push, misleads no longer (P5)."""

SETTLED = timedelta(seconds=12)
"""How long a read is rejected that differs from a fact of the same second: four tries, 1, 2, 4 and 8 s apart.

GitHub's times have whole seconds, so the order within one second is unknown.
"""

NAMED = timedelta(minutes=1)
"""How long a 404 for an object that GitHub just named counts as lag. Others retry within seconds (atlantis #1131)."""

DEFAULT_BRANCH = "default branch"
"""The subject of pushes to the default branch, by any name."""

RULES = "rules"
"""The subject of changes to the rules of branches."""

SHARED_RULES = ".github"
"""The repository with its owner's shared configuration, for repositories that have none of their own."""

NO_COMMIT = "0" * 40
"""In place of a branch's tip before its creation and after its deletion ("Webhook events and payloads: push")."""


def _aware(instant: datetime) -> datetime:
    return instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant


Instant = Annotated[datetime, AfterValidator(_aware)]
"""A time of GitHub's; one without a zone is UTC."""


class PullRequestState(ReadModel, frozen=True):
    """A pull request as a webhook showed it, and the change: a label (`label`), the head (`before`), or the base."""

    kind: Literal["pull"] = "pull"
    updated_at: Instant
    head_sha: str
    base: str
    open: bool
    merged: bool
    draft: bool
    labels: tuple[str, ...]
    title: str
    label: str | None = None
    label_set: bool = False
    before: str | None = None
    base_changed: bool = False
    by: str | None = None
    """The sender of the webhook."""
    by_bot: bool = False
    """Whether GitHub says that the sender is a bot."""
    action: str | None = None
    """GitHub's word for the change."""
    auto_merge: bool | None = None
    """Whether GitHub merges it by itself as soon as its requirements are met; None where the payload does not say."""
    order: tuple[str, ...] | None = None
    """The lines of its description that name other pull requests."""

    @property
    def removed_label(self) -> str | None:
        """The removed label, if the change was a removal."""
        return None if self.label_set else self.label


class OwnLabel(ReadModel, frozen=True):
    """IMQ set or removed a label."""

    kind: Literal["label"] = "label"
    label: str
    label_set: bool


class MergeResult(ReadModel, frozen=True):
    """GitHub answered the merge of a pull request with the commit that landed."""

    kind: Literal["merged"] = "merged"
    sha: str


class MergeRequest(ReadModel, frozen=True):
    """IMQ is about to request the merge of this head; None: IMQ sent no request after all, or GitHub refused."""

    kind: Literal["merge_asked"] = "merge_asked"
    head_sha: str | None = None


class Consent(ReadModel, frozen=True):
    """Somebody asked for a pull request to be queued, at this time of GitHub's.

    `commanded`: by a comment `/queue`, which IMQ counted as consent to `head_sha`.
    """

    kind: Literal["consented", "commanded"] = "consented"
    at: Instant
    by: str | None = None
    head_sha: str | None = None
    lands_on: str | None = None
    """The branch on which the stack lands, if the pull request lay above another one: its base may become that."""


class Push(ReadModel, frozen=True):
    """A branch moved. `at` is GitHub's time; None for IMQ's own landings."""

    kind: Literal["push"] = "push"
    before: str
    after: str
    at: Instant | None = None


class CheckResult(ReadModel, frozen=True):
    """A check run ended."""

    kind: Literal["check"] = "check"
    id: int
    name: str
    app_id: int | None = None
    conclusion: str
    started_at: Instant | None = None
    completed_at: Instant | None = None


class CommitStatus(ReadModel, frozen=True):
    """A commit status was set."""

    kind: Literal["status"] = "status"
    name: str
    state: str
    at: Instant | None = None


class ReviewChange(ReadModel, frozen=True):
    """Somebody gave a review, or one of theirs was dismissed; `state` is a value of `ReviewState`."""

    kind: Literal["review"] = "review"
    author: str
    state: str
    by: str | None = None
    """The sender of the webhook: for a dismissal who dismissed it."""
    by_bot: bool = False


class ConversationChange(ReadModel, frozen=True):
    """Somebody resolved a conversation, or opened it again; `id` is the one in GraphQL."""

    kind: Literal["conversation"] = "conversation"
    id: str
    resolved: bool


class KnownName(ReadModel, frozen=True):
    """GitHub named the object, so it exists."""

    kind: Literal["named"] = "named"


Statement = Annotated[
    PullRequestState
    | OwnLabel
    | MergeResult
    | MergeRequest
    | Consent
    | Push
    | CheckResult
    | CommitStatus
    | ReviewChange
    | ConversationChange
    | KnownName,
    Field(discriminator="kind"),
]


class Fact(ReadModel, frozen=True):
    """A statement about a subject."""

    subject: str
    statement: Statement


@dataclass(frozen=True, slots=True)
class Known:
    """A stored fact: a statement, and when IMQ received it."""

    statement: Statement
    at: datetime


def of_pull(number: int) -> str:
    """Name the subject of a pull request."""
    return f"pull {number}"


def of_branch(name: str) -> str:
    """Name the subject of a branch."""
    return f"branch {name}"


def of_commit(sha: str) -> str:
    """Name the subject of a commit."""
    return f"commit {sha}"


def of_comment(comment_id: int) -> str:
    """Name the subject of a comment."""
    return f"comment {comment_id}"
