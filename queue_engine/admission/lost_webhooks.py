"""P4: a label without its webhook names no head, so IMQ lands nothing that was pushed after it.

The reconciler finds such a label. GitHub tells when it was set and when the pull request changed last: one that has not
changed since has the head that was labelled. Of any other, IMQ asks for lost deliveries, and the label's own names its
head. If that does not come within minutes, the pull request is refused as `label_not_received`, and people read that
they can queue it again.

A push moves `updated_at` (actions/stale #94, fwouts/prmonitor #91). So does much else: a comment, IMQ's own too
(fastlane/issue-bot #25, actions/stale #506), or a forced push to the base (actions/stale #1024). Such a change only
makes IMQ ask people once more.
"""

from dataclasses import asdict
from datetime import timedelta

from queue_engine.core.jobs.job_store import Job
from queue_engine.domain.facts import LabelEvent, PullRequest
from queue_engine.domain.model import Repository
from queue_engine.effects.context import Engine

UNSEEN_LABEL_JOB = "unseen_label"
"""Kind of the job that has a pull request judged once more when the label's webhook has not come."""

_WAIT = timedelta(minutes=5)
"""How long a lost delivery may take: the first look for them is at the sweep, and asks for hundreds in a minute."""

_ONE_CHANGE = timedelta(seconds=1)
"""How far GitHub's two times of one change may differ."""


def may_have_changed(pull: PullRequest, label: LabelEvent) -> bool:
    """Whether anything about the pull request, such as its head, may have changed after the label."""
    return pull.updated_at is None or pull.updated_at > label.at + _ONE_CHANGE


async def await_webhook(engine: Engine, repository: Repository, number: int) -> None:
    """Store that the pull request is judged without the label's webhook in some minutes."""
    async with engine.change() as change:
        await change.tx.jobs.enqueue_once(
            kind=UNSEEN_LABEL_JOB,
            request={"repository": asdict(repository), "number": number},
            process_id=f"{UNSEEN_LABEL_JOB}:{repository.id}:{number}",
            now=change.now,
            not_before=change.now + _WAIT,
        )


async def judge_unseen(engine: Engine, job: Job, *, kind: str) -> None:
    """Have the pull request judged in the order of the hints about it, by a job of this kind."""
    repository, number = Repository(**job.request["repository"]), job.request["number"]
    async with engine.change() as change:
        await change.tx.jobs.enqueue(
            kind=kind,
            request={"repository": asdict(repository), "number": number, "new": True, "webhook_is_late": True},
            process_id=f"{repository.id}:{number}",
            now=change.now,
        )
