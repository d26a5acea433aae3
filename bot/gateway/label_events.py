"""Find who last added a label of a pull request, mostly by two requests at most."""

from dataclasses import replace
from datetime import UTC

from bot.gateway.http.answers import parse_list
from bot.gateway.http.client import Call, owner_and_repo
from bot.gateway.http.connection import Connection, Page
from bot.gateway.schemas import EventAnswer
from queue_engine.domain.facts import LabelEvent
from queue_engine.domain.model import Repository


async def last_labeled_event(
    connection: Connection, repository: Repository, number: int, label: str
) -> LabelEvent | None:
    """Read `GET /repos/{owner}/{repo}/issues/{issue_number}/events` from its last page back: the oldest come first."""
    template = "/repos/{owner}/{repo}/issues/{issue_number}/events?per_page=100"
    call = Call("GET", template, {**owner_and_repo(repository), "issue_number": str(number)})
    first = await connection.call(repository, call)
    later = set[str]()
    if "last" not in first.links:
        return _labeling(first, label, later)
    last = replace(call, link=first.links["last"])
    async for page in connection.pages(repository, last, "prev"):
        if (found := _labeling(page, label, later)) is not None:
            return found
    return None


def _labeling(page: Page, label: str, later: set[str]) -> LabelEvent | None:
    """Find the last "labeled" event of this label; `later` gains the kinds of the events after it."""
    for event in reversed(parse_list(EventAnswer, page.data)):
        if event.event == "labeled" and event.label is not None and event.label.name.casefold() == label.casefold():
            by = event.actor.login if event.actor else None
            return LabelEvent(by, event.created_at.astimezone(UTC), frozenset(later))
        later.add(event.event)
    return None
