"""Merges before comments: an hour at GitHub's documented limits, on the pacing alone and on injected time."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from heapq import heapify, heappop, heappush

import pytest

from bot.gateway.http.client import Call
from bot.gateway.http.pacing import DOCUMENTED, Pacing
from queue_engine.core.concurrency.request_context import RequestPriority, WaitCount

START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
MERGE = Call("PUT", "/repos/{owner}/{repo}/pulls/{pull_number}/merge")
UPDATE = Call("PUT", "/repos/{owner}/{repo}/pulls/{pull_number}/update-branch")
COMMENTS = "/repos/{owner}/{repo}/issues/{issue_number}/comments"


def comment(waiting: int) -> Call:
    """A comment while so many merges wait."""
    return Call("POST", COMMENTS, merges_ahead=WaitCount(waiting, waiting))


@dataclass
class Simulation:
    """Queues that each land a pull request every `interval`, while all first comments are due at once."""

    entries: int
    queues: int
    interval: timedelta
    pacing: Pacing = field(default_factory=lambda: Pacing(DOCUMENTED))
    merges: list[datetime] = field(default_factory=list)
    comments: list[datetime] = field(default_factory=list)

    def run(self) -> None:
        """Until the hour is over."""
        each = [(START + self.interval * number / self.queues, number, "merge") for number in range(self.queues)]
        due = [*each, *((START, self.queues + number, "comment") for number in range(self.entries))]
        heapify(due)
        while due and due[0][0] < START + HOUR:
            now, number, what = heappop(due)
            wait = self.merge(now) if what == "merge" else self.comment(now)
            if wait is not None:
                heappush(due, (now + wait, number, what))

    def merge(self, now: datetime) -> timedelta | None:
        """Update and merge the front of a queue; when the queue asks again."""
        if len(self.merges) == self.entries:
            return None
        assert self.pacing.admit(UPDATE, RequestPriority.NOW, now) is None, "no update waits for comments"
        if (wait := self.pacing.admit(MERGE, RequestPriority.NOW, now)) is not None:
            return wait
        self.merges.append(now)
        return self.interval

    def comment(self, now: datetime) -> timedelta | None:
        """A first comment; when it is tried again."""
        waiting = self.entries - len(self.merges)
        wait = self.pacing.admit(comment(waiting), RequestPriority.BACKGROUND, now)
        if wait is None:
            self.comments.append(now)
        return wait


@pytest.mark.parametrize("entries", [400, 1_000])
def test_an_hour_of_five_hundred_creations_lands_four_hundred_pull_requests(entries: int) -> None:
    """P7: all are labelled at once; comments get what merges leave, and nothing goes beyond what GitHub allows."""
    hour = Simulation(entries, queues=20, interval=timedelta(minutes=2))
    hour.run()
    assert len(hour.merges) >= 400
    assert len(hour.merges) + len(hour.comments) <= DOCUMENTED.content_per_hour * 0.9
    assert len(hour.comments) == (50 if entries == 400 else 0)


def test_a_hundred_labels_at_once_delay_no_merge() -> None:
    """Merges that come with a hundred comments find room in every minute; every comment is there after five."""
    burst = Simulation(100, queues=10, interval=timedelta(seconds=20))
    burst.run()
    assert max(burst.merges) - START <= timedelta(minutes=5)
    assert len(burst.comments) == 100
    assert max(burst.comments) - START <= timedelta(minutes=5)


def test_comment_that_somebody_must_act_on_has_its_share_while_merges_wait_for_all() -> None:
    """An urgent comment never waits for the end of a long day; these comments get a tenth, and no more."""
    pacing, sent = Pacing(DOCUMENTED), 0
    for minute in range(60):
        now = START + minute * timedelta(minutes=1)
        assert pacing.admit(comment(1_000), RequestPriority.BACKGROUND, now) == timedelta(minutes=10)
        sent += sum(pacing.admit(comment(1_000), RequestPriority.NOW, now) is None for _ in range(2))
    assert sent == 45
