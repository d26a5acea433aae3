"""P5, P6: an installation or a repository that is out of order holds its queues, announces that once, and ejects
no pull request. Its event resumes them; if the event is lost, the sweep does.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from sandbox.rest.faults import Fault
from tests.acceptance.world import LABEL, World

HALF_A_MINUTE, HALF_AN_HOUR = timedelta(seconds=30), timedelta(minutes=30)
ALLOW_LIST = (
    "Although you appear to have the correct authorization credentials, the `acme` organization has an IP allow list "
    "enabled, and your IP address is not permitted to access this resource."
)
UNPAID = "Repository access blocked"


@dataclass
class Disorder:
    """How it begins and ends. `silent`: GitHub sends no webhook at its end."""

    world: World
    before: dict[str, str] = field(default_factory=dict)

    @property
    def installation(self) -> Any:
        (found,) = [each for each in self.world.github.state.installations.values() if each.app is self.world.app]
        return found

    def suspended(self, on: bool) -> None:
        self.world.github.accounts.suspend(self.installation, on)

    def uninstalled(self, on: bool) -> None:
        if on:
            self.world.github.accounts.uninstall(self.installation)
        else:
            self.world.github.install(self.world.app, "acme")

    def archived(self, on: bool) -> None:
        self.world.repository.archive(on, by="acme")

    def unpaid(self, on: bool) -> None:
        self._refuse(on, UNPAID)

    def shut_out(self, on: bool) -> None:
        self._refuse(on, ALLOW_LIST)

    def unaccepted(self, on: bool) -> None:
        if on:
            self.before = dict(self.installation.permissions)
            self.world.grant("contents", "read")
        else:
            self.world.github.accounts.accept_permissions(self.installation, self.before)

    def _refuse(self, on: bool, words: str) -> None:
        self.world.server.faults.clear()
        if on:
            self.world.server.faults.add(Fault(times=None, kind="fail", status=403, body={"message": words}))


CAUSES = ("suspended", "uninstalled", "archived", "unpaid", "shut_out", "unaccepted")


async def queue_of_three(world: World) -> list[Any]:
    """Three pull requests behind their base, the first being checked."""
    pulls = [await world.behind("first"), world.open("second"), world.open("third")]
    for pull in pulls:
        pull.label(LABEL, by="mona")
    await world.until_status(pulls[0], "checking")
    return pulls


async def statements(world: World, event: str) -> int:
    """How often the queue's timeline has this event."""
    async with world.bot.engine.store.reading() as tx:
        (queue,) = await tx.queues.all()
        events = await tx.timeline.of_queue(queue.id, limit=100)
    return sum(each.event == event for each in events)


@pytest.mark.parametrize("lost", [False, True], ids=["event", "sweep"])
@pytest.mark.parametrize("cause", CAUSES)
async def test_queue_of_what_is_out_of_order_keeps_its_entries_and_resumes(
    world: World, cause: str, lost: bool
) -> None:
    """Half an hour: no pull request leaves, one statement, and all land afterwards."""
    pulls = await queue_of_three(world)
    change: Callable[[bool], None] = getattr(Disorder(world), cause)
    change(True)
    await world.pass_time(HALF_AN_HOUR)
    assert [await world.reasons(pull) for pull in pulls] == [[], [], []]
    assert await world.paused() == "github_refuses"
    url = world.app.webhook_url
    world.app.webhook_url = None if lost else url
    change(False)
    await world.settle()
    world.app.webhook_url = url
    await world.until(lambda: all(pull.merged for pull in pulls), within=timedelta(hours=1))
    await world.settle()
    assert [await world.reasons(pull) for pull in pulls] == [[], [], []]
    assert await world.paused() is None
