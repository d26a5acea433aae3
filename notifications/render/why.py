"""Render the reply to `/why`. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from notifications.render.body import caused_sentence, fill, not_followed
from notifications.render.escape import MESSAGE_LIMIT, code
from notifications.render.failing import failing_sentence
from notifications.render.formats import instant, names, pull_requests
from notifications.render.trains import train_text
from notifications.texts import REASONS
from notifications.texts import why as texts
from notifications.texts.not_ready import NOT_READY
from notifications.texts.waiting import WAITS
from queue_engine.domain.dequeue_reason import Cause
from queue_engine.domain.notice import Notice
from queue_engine.domain.reasons import PullRequestActor, Reason
from queue_engine.domain.train_notice import TrainNotice

Facts = Mapping[str, Any]

_TEXTS = {reason.value: text for reason, text in (*REASONS.items(), *WAITS.items())}
"""The texts of all reasons, by code."""


def render_why(facts: Facts, notice: Notice) -> list[str]:
    """Render the status, the reasons for waiting, and the blockers.

    Raises KeyError, TypeError or ValueError for facts of another form.
    """
    limits = not_followed(str(sentence) for sentence in facts.get("not_followed") or ())
    if facts["state"] == "not_queued":
        return [_state(facts, notice), *_last_time(facts, notice), *_next(facts, notice), *limits]
    if facts["state"] == "not_ready":
        return [_state(facts, notice), *_next(facts, notice), *limits]
    if facts["state"] == "held":
        return [_state(facts, notice), *_share(facts), *_next(facts, notice), *limits]
    blockers = [blocker_sentence(blocker, notice) for blocker in facts["blockers"]]
    blocked = [texts.BLOCKED.format(sentence=_reason(facts["blocked"], notice))] if facts.get("blocked") else []
    return [
        _state(facts, notice),
        *_waiting(facts),
        *_train(facts, notice),
        *blocked,
        *(texts.QUEUE_BLOCKED.format(sentence=blocker) for blocker in blockers),
        *_next(facts, notice),
        *limits,
    ]


def blocker_sentence(blocker: Facts, notice: Notice) -> str:
    """Render a blocker from its `reason`, `detail` and `until`."""
    sentence = _reason(blocker["reason"], notice)
    if blocker.get("until"):
        sentence += " " + texts.UNTIL.format(time=read_instant(blocker["until"]))
    if blocker.get("detail"):
        sentence += " " + texts.DETAIL.format(detail=code(blocker["detail"], MESSAGE_LIMIT))
    return sentence


def read_instant(written: str) -> str:
    """Parse and format an instant in ISO 8601. Raises ValueError."""
    return instant(datetime.fromisoformat(written))


def _state(facts: Facts, notice: Notice) -> str:
    shown = {"base": code(facts.get("base_branch") or notice.base_branch)}
    for name in ("status_since", "enqueued_at"):
        if name in facts:
            shown[name] = read_instant(facts[name])
    for name in ("label", "queued_by"):
        if name in facts:
            shown[name] = code(facts[name])
    for name in ("ahead", "depth"):
        if isinstance(facts.get(name), int):
            shown[name] = str(facts[name])
    if "unmet" in facts:
        shown["unmet"] = " ".join(_lacks(*lacked, notice=notice) for lacked in facts["unmet"])
    if "position" in facts:
        shown["place"] = str(int(facts["position"]) + 1)
    states = {**texts.STATES, **texts.TRAIN_STATES} if facts.get("train") else texts.STATES
    return states[facts["state"]].format(**shown)


def _train(facts: Facts, notice: Notice) -> Iterable[str]:
    """Say which run tests the pull request, with whom, and how likely it breaks that run."""
    if not facts.get("train"):
        return
    train = TrainNotice.model_validate(facts["train"])
    yield from train_text(train, notice.number, facts.get("base_branch") or notice.base_branch)


def _lacks(reason: str, detail: str | None, failing: Sequence[Facts] = (), *, notice: Notice) -> str:
    sentence = fill(NOT_READY[Reason(reason)].sentence, notice) + failing_sentence(failing)
    return f"{sentence} {texts.DETAIL.format(detail=code(detail, MESSAGE_LIMIT))}." if detail else sentence


def _waiting(facts: Facts) -> Iterable[str]:
    if numbers := [int(number) for number in facts["ahead"]]:
        more = int(facts["position"]) - len(numbers)
        template = texts.AHEAD_AND_MORE if more > 0 else texts.AHEAD
        yield template.format(numbers=pull_requests(numbers), count=more)
    yield from _share(facts)
    if facts["pending_checks"]:
        yield texts.AWAITED.format(checks=names([str(name) for name in facts["pending_checks"]]))
    if facts["hotfix"]:
        yield texts.HOTFIX
    elif facts["priority"]:
        yield texts.PRIORITY.format(priority=int(facts["priority"]))
    if facts.get("outage"):
        yield texts.OUTAGE.format(time=read_instant(facts["outage"]))


def _share(facts: Facts) -> Iterable[str]:
    if facts.get("share"):
        author, count = facts["share"]
        yield share_sentence(code(str(author)), int(count))


def share_sentence(author: str, count: int) -> str:
    """Return why entries that joined later are ahead; `author` is the login as its reader sees it."""
    return texts.SHARE.format(author=author, count=count) if count else texts.SHARED


def _last_time(facts: Facts, notice: Notice) -> Iterable[str]:
    if facts.get("reason"):
        cause = Cause(**facts["cause"]) if facts.get("cause") else None
        caused = caused_sentence(Reason(facts["reason"]), cause, notice)
        sentence = caused or _reason(facts["reason"], notice)
        if facts.get("detail"):
            sentence += " " + texts.DETAIL.format(detail=code(facts["detail"], MESSAGE_LIMIT))
        yield texts.LAST_TIME.format(time=read_instant(facts["at"]), sentence=sentence)
    elif facts.get("event") == "landed":
        yield texts.LANDED.format(time=read_instant(facts["at"]))


def _next(facts: Facts, notice: Notice) -> Iterable[str]:
    """Say who acts next, and how, where the reply has it."""
    if "whose_move" not in facts:
        return
    text = NOT_READY[Reason(facts["next"])] if facts["state"] == "not_ready" else _TEXTS[facts["next"]]
    yield texts.WHOSE_MOVE.format(
        actor=texts.ACTORS[PullRequestActor(facts["whose_move"])], step=fill(text.next_step, notice)
    )


def _reason(reason: str, notice: Notice) -> str:
    filled = {"base": code(notice.base_branch), "label": code(notice.trigger_label)}
    return REASONS[Reason(reason)].sentence.format(**filled)
