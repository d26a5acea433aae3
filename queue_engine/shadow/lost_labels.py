"""Find the label of a pull request in shadow mode for which no webhook came."""

from queue_engine.admission.case import Case
from queue_engine.admission.enqueue_request import EnqueueRequest
from queue_engine.admission.lost_webhooks import is_labeled_head
from queue_engine.domain.model import Repository
from queue_engine.domain.policy import has_label
from queue_engine.effects.context import Engine
from queue_engine.rules.eligibility import UNKNOWN_HEAD


async def find_label(engine: Engine, repository: Repository, number: int) -> EnqueueRequest | None:
    """Return the request of a label for which no webhook came: it counts if GitHub proves that it was set on this head.

    None if the pull request has no trigger label. Raises GitHubError.
    """
    pull = await engine.github.pull_request(repository, number)
    policy = await engine.policies.of(repository, pull.base_branch)
    for label in policy.trigger_labels:
        if not has_label(pull.labels, [label]):
            continue
        last = await engine.github.last_labeled_event(repository, number, label)
        if last is not None:
            proved = await is_labeled_head(engine, repository, pull, last, policy)
            head = pull.head_sha if proved else UNKNOWN_HEAD
            return EnqueueRequest(Case(repository, number), by=last.by, head_sha=head, arrived_at=last.at)
    return None
