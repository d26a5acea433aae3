"""From an event of the domain to the messages that GitHub sends about it."""

from collections.abc import Iterable

from github_emulator.events.events import RepositoryEvent
from github_emulator.payloads.source import Source
from github_emulator.webhooks import check_messages, pull_request_messages, repository_messages
from github_emulator.webhooks.message import Composers, Message

_COMPOSERS: Composers = {
    **pull_request_messages.COMPOSERS,
    **repository_messages.COMPOSERS,
    **check_messages.COMPOSERS,
}


def compose(source: Source, event: RepositoryEvent) -> Iterable[Message]:
    """The messages of an event of a repository, in GitHub's order."""
    return _COMPOSERS[type(event)](source, event)
