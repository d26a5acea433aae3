"""Compare reviews and conversations with those in webhooks. Pure functions."""

from collections.abc import Collection, Sequence
from datetime import datetime

from queue_engine.domain.facts import Review, ReviewState
from queue_engine.domain.known_facts import SETTLED, ConversationChange, Known, ReviewChange

_VERDICTS = frozenset({ReviewState.APPROVED, ReviewState.CHANGES_REQUESTED, ReviewState.DISMISSED})


def outdated_reviews(reviews: Sequence[Review], known: Sequence[Known], now: datetime) -> str | None:
    """Return why these reviews, oldest first, are older than the facts of the last seconds; None if they are not."""
    verdicts = {
        one.statement.author: one.statement.state
        for one in known
        if isinstance(one.statement, ReviewChange) and one.statement.state in _VERDICTS and now - one.at < SETTLED
    }
    read = {review.author: review.state.value for review in reviews if review.state in _VERDICTS}
    # GraphQL leaves out dismissed reviews, and those of people without write permission: the latter lack for seconds.
    dismissed = ReviewState.DISMISSED.value
    differing = next((author for author, state in verdicts.items() if read.get(author, dismissed) != state), None)
    return None if differing is None else f"the review of {differing} is known to be {verdicts[differing]}"


def outdated_conversations(open_now: Collection[str], known: Sequence[Known], now: datetime) -> str | None:
    """Return why these open conversations differ from the facts of the last seconds; None if they do not.

    The read names all conversations of a page, but not those of later pages.
    """
    changes = {
        one.statement.id: one.statement.resolved
        for one in known
        if isinstance(one.statement, ConversationChange) and now - one.at < SETTLED
    }
    for conversation, resolved in changes.items():
        if resolved and conversation in open_now:
            return f"the conversation {conversation} is known to be resolved"
        if not resolved and not open_now:
            return f"the conversation {conversation} is known to be open"
    return None
