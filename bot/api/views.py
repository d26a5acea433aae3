"""Models of the API's answers about queues and entries, and of calls about a pull request."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import (
    AliasChoices,
    AliasGenerator,
    AliasPath,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    model_validator,
)

from bot.api.payload import AnswerModel, Payload
from notifications.render.culprit_text import culprit_sentence
from notifications.render.status import Names, answer_text, effect_sentence, plain, status_lines
from notifications.render.train_text import train_text
from queue_engine.commands.commands import MAX_POINTS
from queue_engine.config.model import Policy
from queue_engine.domain.blocker import Blocker
from queue_engine.domain.culprit import CulpritOutcome, CulpritRecord
from queue_engine.domain.facts import FailingCheck
from queue_engine.domain.model import Entry, EntryStatus, Repository, RepositoryName
from queue_engine.domain.notice import TrainNotice
from queue_engine.domain.reasons import RETRY_REASONS, Reason
from queue_engine.queries.control_effect import ControlEffect
from queue_engine.queries.pull_request_status import HELD, NOT_READY, PullRequestStatus, QueueHistory, whose_move
from queue_engine.queries.queue_status import EntryView, GitHubOutage, QueueStatus, RunProgress
from queue_engine.queries.train_status import TrainBlocker
from queue_engine.rules.check_progress import tally
from queue_engine.rules.depth import waits_for_room
from queue_engine.rules.job_rates import Dollars, Minutes
from queue_engine.rules.priority import FairShare, PriorityEffect

USUAL_WAIT = 60
"""Seconds for which the call waits that an answer names next: any proxy lets it."""


class CallAnswer(AnswerModel):
    """A call of this API: its method, and its path with the query."""

    method: str
    path: str


class RevertAnswer(AnswerModel):
    """The pull request that reverts one, or that lands it again: `opened` is its number.

    `queued` says whether it was queued, as a hotfix. If not, `reason` and `sentence` say why; a reland never is.
    """

    repository: RepositoryName
    number: int
    opened: int
    queued: bool
    reason: str | None = None
    sentence: str


class StepAnswer(AnswerModel):
    """One instruction: a sentence, and the call that it leads to, if there is one.

    Make the call at once if the pull request waits, was never queued, or if `retry_safe`. Otherwise somebody has to do
    first what the sentence says.
    """

    sentence: str
    call: CallAnswer | None = None


class StateAnswer(AnswerModel):
    """The state of a pull request, and what has to happen next.

    `state` is the entry's status, `held`, `not_ready`, or `not_queued`; null in an error before IMQ looked at the pull
    request.
    `outcome` is how it last left its queue: `landed`, `failed`, `cancelled` or `refused`; null while it is queued, and
    if it never was. `retry_safe` says whether the same head, queued again now, may have another outcome.
    """

    state: str | None = None
    outcome: str | None = None
    whose_move: str
    reason: str | None = None
    sentence: str
    detail: str | None = None
    retry_safe: bool = False
    failing: tuple[FailingCheck, ...] = Field((), examples=[[{"check": "ci/test", "url": None, "jobs": ["test"]}]])
    next: StepAnswer


def state_fields(
    found: PullRequestStatus, repository: Repository, policy: Policy | None = None, *, why: Reason | None = None
) -> Mapping[str, Any]:
    """Return the values of `StateAnswer` for a pull request; `why` is the reason of a refusal of this very call."""
    reason = why or found.reason
    base = found.base_branch or (None if found.previous is None else found.previous.base_branch)
    left = found.previous if why is None else None
    text = answer_text(reason, base=base, policy=policy, not_ready=why is None and bool(found.unmet), left=left)
    return {
        "state": found.state,
        "outcome": found.outcome if why is None or found.is_queued else "refused",
        "whose_move": (found.whose_move if why is None else whose_move(why)).value,
        "reason": reason.value,
        "sentence": text.sentence,
        "detail": found.detail if why is None else None,
        "retry_safe": found.retry_safe if why is None else not found.is_queued and why in RETRY_REASONS,
        "failing": found.failing if why is None else (),
        "next": StepAnswer(sentence=text.next_step, call=_next_call(found, repository)),
    }


def _next_call(found: PullRequestStatus, repository: Repository) -> CallAnswer | None:
    path = f"/api/v1/repositories/{repository.full_name}/pulls/{found.number}/queue"
    if found.is_queued:
        return CallAnswer(method="GET", path=f"{path}?wait={USUAL_WAIT}")
    return CallAnswer(method="POST", path=path) if found.may_be_queued else None


def as_json(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of `StateAnswer` as JSON has them."""
    return StateAnswer(**fields).model_dump(mode="json")


def _or_of(part: str) -> ConfigDict:
    """Read each field from what the engine loaded, or else from this part of it."""
    names = AliasGenerator(validation_alias=lambda name: AliasChoices(name, AliasPath(part, name)))
    return ConfigDict(alias_generator=names)


class Landing(AnswerModel):
    """When an entry is likely to land, by earlier landings."""

    earliest: datetime
    latest: datetime


def _landing(eta: object) -> object:
    return {"earliest": eta[0], "latest": eta[1]} if isinstance(eta, tuple) else eta


class TrainAnswer(TrainNotice):
    """What a train does with an entry: `progress`, in `sentences`.

    `run` tests all `members` in one CI run on `branch`, whose tip is `candidate`; they are null outside of a run.
    `reported` is how many of its checks have reported, such as `3 of 7 checks`. `failed` are the members of the failed
    run that IMQ bisects. `conflict` is the pull request that holds this one back, `conflicts` are those of which one
    does. `suspicion` is the chance from 0 to 1 that this one breaks its run.
    """

    model_config = ConfigDict(defer_build=True)

    sentences: tuple[str, ...]
    reported: str | None

    @classmethod
    def of(cls, train: TrainNotice, entry: Entry) -> "TrainAnswer":
        """Add what people read."""
        checks = None if train.run is None else tally(entry)
        return cls(
            **dict(train),
            sentences=tuple(plain(each) for each in train_text(train, entry.number, entry.base_branch)),
            reported=None if checks is None else f"{checks[0]} of {checks[1]} checks",
        )


class EntryAnswer(AnswerModel):
    """An entry. `position` counts from 0, `status_since` is when its status began.

    `pending_checks` have not reported; `blockers` are those of the queue, unless the entry is exempt; `outage` is set
    while requests to GitHub fail; `train` is what a train does with it, if it does.
    """

    model_config = _or_of("entry")

    number: int
    title: str
    author: str
    queued_by: str
    position: int = Field(validation_alias=AliasPath("entry", "position"))
    status: EntryStatus
    head_sha: str = Field(validation_alias=AliasPath("entry", "head_sha"))
    priority: int
    hotfix: bool
    enqueued_at: datetime
    status_since: datetime
    pending_checks: tuple[str, ...]
    blockers: tuple[Blocker, ...]
    outage: GitHubOutage | None
    train: TrainAnswer | None
    eta: Annotated[Landing | None, BeforeValidator(_landing)]

    @model_validator(mode="wrap")
    @classmethod
    def _with_train(cls, view: EntryView, read: ModelWrapValidatorHandler["EntryAnswer"]) -> "EntryAnswer":
        train = None if view.train is None else TrainAnswer.of(view.train, view.entry)
        return read(replace(view, train=train))


class QueueSummary(AnswerModel):
    """A queue: its base branch, how many have room, wait for room, and wait until they are ready; what blocks it."""

    model_config = _or_of("queue")

    base_branch: str
    depth: int
    held: int
    not_ready: int
    blockers: tuple[Blocker, ...]


class QueuesAnswer(AnswerModel):
    """The queues of a repository, by their branches."""

    repository: RepositoryName
    queues: tuple[QueueSummary, ...]


class CommitAnswer(AnswerModel):
    """A result of the check on the commit `sha`, as which `pull_request` landed; `on_base` if the base's CI gave it."""

    sha: str
    pull_request: int | None
    passed: bool
    at: datetime
    url: str | None
    on_base: bool


class CulpritAnswer(AnswerModel):
    """The search for what broke the base: what it found, with what probability, by which results, oldest first.

    `outcome` is null until it ends. `pull_request` is the culprit, if one is named; `revert` reverts it.
    """

    check: str
    started: datetime
    outcome: CulpritOutcome | None
    sentence: str
    pull_request: int | None
    probability: float | None
    revert: int | None
    results: tuple[CommitAnswer, ...]

    @classmethod
    def of(cls, search: CulpritRecord | None, base: str) -> "CulpritAnswer | None":
        """Add what people read to a search."""
        if search is None:
            return None
        results = [
            CommitAnswer(
                sha=search.commits[each.place].sha,
                pull_request=search.commits[each.place].number,
                **{name: getattr(each, name) for name in ("passed", "at", "url", "on_base")},
            )
            for each in search.results
        ]
        names = ("check", "started", "outcome", "probability", "revert")
        return cls(
            **{name: getattr(search, name) for name in names},
            sentence=plain(culprit_sentence(search, base)),
            pull_request=search.culprit,
            results=results,
        )


class QueueAnswer(QueueSummary):
    """A queue with its entries, the front first, and its active runs.

    `fallback` says why IMQ tests one pull request after the other, if the configuration asks for trains. `culprit` is
    the last search for what broke the base, for a week.
    """

    repository: RepositoryName
    entries: tuple[EntryAnswer, ...]
    runs: tuple[RunProgress, ...]
    fallback: TrainBlocker | None
    culprit: CulpritAnswer | None = None

    @model_validator(mode="wrap")
    @classmethod
    def _with_culprit(cls, found: QueueStatus, read: ModelWrapValidatorHandler["QueueAnswer"]) -> "QueueAnswer":
        answer = read(replace(found, culprit=None))
        return answer.model_copy(update={"culprit": CulpritAnswer.of(found.culprit, found.queue.base_branch)})


class UnmetAnswer(AnswerModel):
    """A requirement that a pull request does not meet yet."""

    reason: Reason
    sentence: str
    detail: str | None


class WhyAnswer(StateAnswer):
    """The status of a pull request: its entry, if that has room; how many entries get room before it, if it is held.

    `state` is the entry's status, `held`, `not_ready`, or `not_queued`. `unmet` is what a pull request lacks that is
    not ready, the most important first. `previous` is how it last left a queue, or that it was rejected.
    """

    repository: RepositoryName
    number: int
    base_branch: str | None
    depth: int
    entry: EntryAnswer | None
    held_behind: int | None
    fair_share: FairShare | None
    unmet: tuple[UnmetAnswer, ...]
    previous: QueueHistory | None
    sentences: tuple[str, ...] = Field(description="Why it waits, for people, as `/why` says it.")
    version: str = Field("", description="Changes with the answer, but not with its estimates.")

    @classmethod
    def of(cls, repository: Repository, found: PullRequestStatus, policy: Policy | None = None) -> "WhyAnswer":
        """Add what people read to a pull request's status."""
        texts = [
            answer_text(each.reason, base=found.base_branch, policy=policy, not_ready=True) for each in found.unmet
        ]
        unmet = [
            UnmetAnswer(reason=each.reason, sentence=text.sentence, detail=each.detail)
            for each, text in zip(found.unmet, texts, strict=True)
        ]
        return cls(
            **state_fields(found, repository, policy),
            repository=repository,
            unmet=unmet,
            sentences=[plain(line.sentence) for line in status_lines(found, Names.of(None, policy))],
            **{
                name: getattr(found, name)
                for name in ("number", "base_branch", "depth", "entry", "held_behind", "fair_share", "previous")
            },
        )


def _whole_seconds(by: object) -> object:
    return round(by.total_seconds()) if isinstance(by, timedelta) else by


class Delays(AnswerModel):
    """The pull requests that a priority delays, and for about how many seconds each, if that is known.

    `preempts` is the preempted entry.
    """

    numbers: tuple[int, ...]
    seconds: Annotated[int | None, BeforeValidator(_whole_seconds)] = Field(validation_alias="by")
    preempts: int | None


class QueuedAnswer(StateAnswer):
    """A queued pull request; `position` counts from 0.

    For a held one `position` is null and `status` is `held`; for one that is not ready, `not_ready`. `delays` is the
    effect of a priority that was set.
    """

    repository: RepositoryName
    base_branch: str
    number: int
    position: int | None
    status: str
    head_sha: str
    queued_by: str
    priority: int
    delays: Delays | None = None

    @classmethod
    def of(
        cls, entry: Entry, policy: Policy, found: PullRequestStatus, delays: PriorityEffect | None = None
    ) -> "QueuedAnswer":
        """Convert an entry, with the state of its pull request."""
        held = entry.is_ready and waits_for_room(entry.position, policy)
        outside = HELD if held else NOT_READY if not entry.is_ready else None
        return cls(
            **state_fields(found, entry.repository, policy),
            repository=entry.repository,
            base_branch=entry.base_branch,
            number=entry.number,
            position=entry.position if outside is None else None,
            status=outside or entry.status.value,
            head_sha=entry.head_sha,
            queued_by=entry.queued_by,
            priority=entry.priority,
            delays=delays,
        )


class DequeuedAnswer(StateAnswer):
    """Whether the pull request was dequeued; if not, its merge has started."""

    repository: RepositoryName
    number: int
    left: bool


class EffectAnswer(AnswerModel):
    """What a control would do now; nothing is done. `sentence` says it for people.

    `runs` end without a result, or go to their end where `holds` is true, so that only their landing waits. `minutes`
    are those that GitHub billed for their jobs until now, `cost` their price in US dollars, null while none is known.
    `delayed` and `sooner` are pull requests; `seconds` is by about how much each is delayed, null if that is unknown.
    `position` is that of the pull request afterwards, counted from 0, null if it is not in its queue then.
    """

    sentence: str
    runs: int
    holds: bool
    minutes: Minutes
    cost: Dollars | None
    position: int | None
    delayed: tuple[int, ...]
    seconds: int | None
    sooner: tuple[int, ...]
    preempts: int | None

    @classmethod
    def of(cls, effect: ControlEffect) -> "EffectAnswer":
        """Convert what the engine predicts."""
        return cls(
            sentence=effect_sentence(effect.runs, effect.jobs, len(effect.delayed), holds=effect.holds),
            runs=effect.runs,
            holds=effect.holds,
            minutes=effect.jobs.minutes,
            cost=effect.jobs.cost,
            position=effect.position,
            delayed=effect.delayed,
            seconds=None if effect.by is None else round(effect.by.total_seconds()),
            sooner=effect.sooner,
            preempts=effect.preempts,
        )


_HEAD = r"^([0-9a-f]{40}|[0-9a-f]{64})$"
"""A full SHA."""


class HeadCall(Payload):
    """Parameters of a call about a pull request: the reviewed head, as a full SHA."""

    head_sha: str | None = Field(None, pattern=_HEAD)


def _integer(value: object) -> object:
    """Convert `10.0` to an integer: JSON has one kind of number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Points = Annotated[int, Field(strict=True, ge=-MAX_POINTS, le=MAX_POINTS), BeforeValidator(_integer)]
Priority = Points | Literal["high", "normal", "low"]
"""Points, or one of the levels that commands accept."""


class QueueCall(HeadCall):
    """Parameters of queueing: the head, and the priority as points, or `high`, `normal`, `low`."""

    priority: Priority | None = None


class PriorityCall(Payload):
    """Parameters of a priority change: points, or `high`, `normal`, `low`."""

    priority: Priority
