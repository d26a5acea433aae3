"""Facts from webhooks and answers to writes: plain data, stored as JSON by subject.

What is told, and which read contradicts it (`queue_engine.known`):

- `push`, or IMQ's landing, tells that a branch left `before` for `after`: a read that shows a tip that was left.
- `pull_request` tells head, base, state, draft, labels, title, `updated_at`: a read with an older `updated_at` if a
  field differs; one of the same second for 12 s; one with a head that a push replaced; one without a label just set.
- IMQ's own merges and labels tell what was merged, set or removed: a read that shows it open; for 12 s the old label.
- `check_run` and `status` tell what was reported: a read without it, or without a newer one.
- `pull_request_review` tells a person's newest verdict: a read with another one, for 12 s.
- A name tells that something exists: a 404, for a minute.

Facts are only added, in the transaction that stores the delivery. What follows from them is computed where a read is
compared, so that deliveries may come in any order. They count for a quarter of an hour, so that a lost webhook holds
nothing up for longer.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

KEPT = timedelta(minutes=15)
"""How long a fact contradicts reads. A lost webhook, such as that of a forced push, misleads no longer (P5)."""

SETTLED = timedelta(seconds=12)
"""How long a read is doubted that nothing but a difference within one second speaks against: four tries later
(1, 2, 4 and 8 seconds) it is believed. GitHub's times have whole seconds, so that order is not known within one."""

NAMED = timedelta(minutes=1)
"""How long a 404 for what was just named is taken for a replica's. Others retry within seconds (atlantis #1131)."""

DEFAULT_BRANCH = "default branch"
"""The subject of pushes to the default branch, whatever its name."""

RULES = "rules"
"""The subject of changes to the rules of branches."""

SHARED_RULES = ".github"
"""The repository whose configuration holds for all of its owner's that have none."""

NO_COMMIT = "0" * 40
"""In place of a branch's tip before its creation and after its deletion ("Webhook events and payloads: push")."""


def _aware(instant: datetime) -> datetime:
    return instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant


Instant = Annotated[datetime, AfterValidator(_aware)]
"""A time of GitHub's; one without a zone is UTC."""


class _Told(BaseModel):
    model_config = ConfigDict(frozen=True)


class PullRequestState(_Told):
    """A pull request as a webhook showed it, with what changed: a label (`label`), the head
    (`before`), or the base branch."""

    kind: Literal["pull"] = "pull"
    updated_at: Instant
    head: str
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
    """Who did it; None if an older IMQ stored it."""

    @property
    def removed_label(self) -> str | None:
        """The label that was taken off."""
        return None if self.label_set else self.label


class OwnLabel(_Told):
    """IMQ set a label, or took it off."""

    kind: Literal["label"] = "label"
    label: str
    label_set: bool


class MergeResult(_Told):
    """GitHub answered the merge of a pull request with the commit that landed."""

    kind: Literal["merged"] = "merged"
    sha: str


class MergeRequest(_Told):
    """IMQ is about to ask GitHub to merge this head; None: GitHub was not asked after all, or refused."""

    kind: Literal["merge_asked"] = "merge_asked"
    head: str | None = None


class Consent(_Told):
    """Somebody asked for a pull request to be queued, at that time of GitHub's; or, as `commanded`, commented `/queue`,
    which IMQ took for consent to `head`."""

    kind: Literal["consented", "commanded"] = "consented"
    at: Instant
    by: str | None = None
    head: str | None = None


class Push(_Told):
    """A branch moved. `at` is GitHub's time; None for IMQ's own landings."""

    kind: Literal["push"] = "push"
    before: str
    after: str
    at: Instant | None = None


class CheckResult(_Told):
    """A check run ended."""

    kind: Literal["check"] = "check"
    id: int
    name: str
    app_id: int | None = None
    conclusion: str
    started_at: Instant | None = None
    completed_at: Instant | None = None


class CommitStatus(_Told):
    """A commit status was set."""

    kind: Literal["status"] = "status"
    name: str
    state: str
    at: Instant | None = None


class ReviewChange(_Told):
    """Somebody gave a review, or one of theirs was dismissed; `state` is a value of `ReviewState`."""

    kind: Literal["review"] = "review"
    author: str
    state: str


class HeldLabel(_Told):
    """IMQ could not answer a label yet, as reads do not show it; labels that came after it wait until then.

    `order` is its webhook's place in the order of arrival.
    """

    kind: Literal["postponed"] = "postponed"
    order: int
    until: Instant


class KnownName(_Told):
    """GitHub named it, so that it exists."""

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
    | HeldLabel
    | KnownName,
    Field(discriminator="kind"),
]


class Fact(BaseModel):
    """A statement about a subject."""

    model_config = ConfigDict(frozen=True)

    subject: str
    told: Statement


@dataclass(frozen=True, slots=True)
class Known:
    """A stored fact: a statement, and when IMQ received it."""

    told: Statement
    at: datetime


def of_pull(number: int) -> str:
    """The subject of a pull request."""
    return f"pull {number}"


def of_branch(name: str) -> str:
    """The subject of a branch."""
    return f"branch {name}"


def of_labels(base_branch: str) -> str:
    """The subject of the labels that were set on pull requests for a branch."""
    return f"labels {base_branch}"


def of_commit(sha: str) -> str:
    """The subject of a commit."""
    return f"commit {sha}"


def of_comment(comment_id: int) -> str:
    """The subject of a comment."""
    return f"comment {comment_id}"
