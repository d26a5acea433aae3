"""Sentences that name who has to act next."""

from collections.abc import Mapping

from queue_engine.domain.reasons import ReasonActor

NEXT_STEP_FOR: Mapping[ReasonActor, str] = {
    ReasonActor.AUTHOR: "Next step for the author:",
    ReasonActor.MAINTAINER: "Next step for a maintainer:",
    ReasonActor.OPERATOR: "Next step for the IMQ operator:",
    ReasonActor.NONE: "No action needed.",
}
NO_FIX_LABEL = "with the label that has `fixes_base` in `.github/imq.yml`"
"""Replaces the label's name where the configuration has no such label."""
NEXT_STEP_FOR_PEOPLE = "Next step, {people}:"
NEXT_STEP_FOR_PEOPLE_OR_MAINTAINER = "Next step, {people} or a maintainer:"
ASK = " If you cannot, ask {queued_by}, who queued it before."
ASK_SOMEBODY = " If you cannot, ask someone with write access."
