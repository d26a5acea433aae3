"""Find who last added a label of a pull request, mostly by two requests at most."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC

from bot.gateway.http.answers import parse_list
from bot.gateway.http.client import Call, owner_and_repo
from bot.gateway.http.connection import Connection, Page
from bot.gateway.schemas import EventAnswer
from queue_engine.domain.facts import LabelEvent
from queue_engine.domain.model import Repository


async def last_labelling(connection: Connection, repository: Repository, number: int, label: str) -> LabelEvent | None:
    """Read `GET /repos/{owner}/{repo}/issues/{issue_number}/events` from its last page back: the oldest come first."""
    template = "/repos/{owner}/{repo}/issues/{issue_number}/events?per_page=100"
    call = Call("GET", template, {**owner_and_repo(repository), "issue_number": str(number)})
    first = await connection.call(repository, call)
    if "last" not in first.links:
        return next(_labeled_events(first, label), None)
    last = replace(call, link=first.links["last"])
    async for page in connection.pages(repository, last, "prev"):
        for found in _labeled_events(page, label):
            return found
    return None


def _labeled_events(page: Page, label: str) -> Iterator[LabelEvent]:
    """Iterate over the "labeled" events of this label, newest first."""
    for event in reversed(parse_list(EventAnswer, page.data)):
        if event.event == "labeled" and event.label is not None and event.label.name.casefold() == label.casefold():
            yield LabelEvent(event.actor.login if event.actor else None, event.created_at.astimezone(UTC))
