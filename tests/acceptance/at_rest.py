"""What holds whenever a world rests: labels are known or explained, and the newest words are true (P6)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from queue_engine.domain.notice import WAITING, kind_of
from queue_engine.domain.own_check import OWN_CHECK
from queue_engine.domain.policy import Mode

if TYPE_CHECKING:
    from tests.acceptance.world import World


async def contradictions(world: "World", *, labels: frozenset[str]) -> list[str]:
    """What IMQ's records, and its words on GitHub, contradict; `labels` queue a pull request, in lower case."""
    found: list[str] = []
    async with world.bot.engine.store.reading() as tx:
        for pull in _pulls(world):
            repository = pull.repository
            if await tx.shadow.mode(repository.id) is Mode.SHADOW:
                continue  # there IMQ writes nothing, and only comments from before shadow mode may be left
            entry = await tx.entries.find(repository.id, pull.number)
            own = [each.body for each in pull.comments.values() if "<!-- imq:comment" in each.body]
            kind = kind_of(own[-1]) if own else None
            on = {label.name.lower() for label in pull.labels} & labels
            open_now = pull.state == "open"
            of_head = repository.suites_by_sha.get(pull.head_sha, ())
            runs = [run for suite in of_head if suite.app is world.app for run in suite.runs if run.name == OWN_CHECK]
            newest = max(runs, key=lambda run: run.id, default=None)
            unfinished = newest is not None and newest.status != "completed"
            name = f"#{pull.number} ({'queued' if entry else 'not queued'}, {'open' if open_now else 'closed'}, {kind})"
            if open_now and on and entry is None and (kind is None or kind in WAITING):
                found.append(f"{name} has the label, which IMQ neither knows nor explains")
            elif entry is None and kind in WAITING:
                found.append(f"{name} has a comment that says it is queued")
            if entry is not None and entry.is_ready and kind is not None and kind not in WAITING:
                found.append(f"{name} has a comment that says it has left")
            if entry is None and unfinished:
                found.append(f"{name} has a check run that has not ended")
    return found


def _pulls(world: "World") -> Iterator[Any]:
    for repository in world.github.state.repositories.values():
        if any(each.app is world.app for each in world.github.state.installations_of(repository)):
            yield from repository.pulls.values()
