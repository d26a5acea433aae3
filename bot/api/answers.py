"""The fields that every answer about a pull request has: its state, whose move it is, and what to do next."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from bot.api.payload import AnswerModel
from notifications.render.status import answer_text
from queue_engine.config.model import Policy
from queue_engine.domain.facts import FailingCheck
from queue_engine.domain.model import Repository
from queue_engine.domain.reasons import RETRY_REASONS, Reason
from queue_engine.queries.pull_request_status import PullRequestStatus, whose_move

LONGEST_WAIT = 60
"""Seconds for which a call may wait for a change."""


class CallAnswer(AnswerModel):
    """A call of this API: its method, and its path with the query."""

    method: str
    path: str


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
    text = answer_text(reason, base=base, policy=policy, not_ready=why is None and bool(found.unmet))
    return {
        "state": found.state,
        "outcome": found.outcome if why is None or found.is_queued else "refused",
        "whose_move": whose_move(reason).value,
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
        return CallAnswer(method="GET", path=f"{path}?wait={LONGEST_WAIT}")
    return CallAnswer(method="POST", path=path) if found.may_be_queued else None


def as_json(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of `StateAnswer` as JSON has them."""
    return StateAnswer(**fields).model_dump(mode="json")
