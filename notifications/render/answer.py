"""Render the sentences of an answer about a pull request as plain text, for programs and pages. Pure."""

from notifications.texts import NO_FIX_LABEL, REASONS
from notifications.texts.not_ready import NOT_READY
from notifications.texts.reasons import ReasonText
from notifications.texts.waiting import WAITS
from queue_engine.config.model import Policy
from queue_engine.domain.reasons import Reason, WaitReason

UNKNOWN_BASE = "its base branch"
UNKNOWN_LABEL = "of the queue"
"""After "the label", where the caller has no policy."""


def answer_text(
    reason: Reason | WaitReason,
    *,
    base: str | None = None,
    label: str | None = None,
    policy: Policy | None = None,
    awaited: bool = False,
) -> ReasonText:
    """Return what happened and the next step, each as one plain text; callers escape them where they show them.

    `awaited`: the pull request waits outside the queue until it has what the reason says that it lacks.
    """
    texts = NOT_READY if awaited else REASONS
    text = texts[reason] if isinstance(reason, Reason) else WAITS[reason]
    known = policy or Policy()
    fix = " or ".join(f"`{name}`" for name in known.fix_labels) or NO_FIX_LABEL
    named = label or (None if policy is None else policy.trigger_label)
    shown = {
        "base": base or UNKNOWN_BASE,
        "label": UNKNOWN_LABEL if not named else f"`{named}`",
        "fix": fix,
    }
    sentence, step = (each.format(**shown) for each in (text.sentence, text.next_step))
    return ReasonText(sentence[:1].upper() + sentence[1:], step)
