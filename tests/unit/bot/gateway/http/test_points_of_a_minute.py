"""The points of a minute, on the pacing alone and on injected time: REST and GraphQL apart, never used up at once."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush

import pytest

from bot.gateway.http.client import GRAPHQL, Call
from bot.gateway.http.pacing import DOCUMENTED, Pacing, content_of, points_kind, points_of
from queue_engine.core.concurrency.request_context import RequestPriority, WaitCount
from queue_engine.store.figures import POINTS

START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
PULL = "/repos/{owner}/{repo}/pulls/{pull_number}"
READ, QUERY = Call("GET", PULL), Call("POST", GRAPHQL)
UPDATE, MERGE = Call("PUT", f"{PULL}/update-branch"), Call("PUT", f"{PULL}/merge")
COMMENT = Call("POST", "/repos/{owner}/{repo}/issues/{issue_number}/comments")
CHECK_RUN = Call("POST", "/repos/{owner}/{repo}/check-runs")
LABEL = Call("DELETE", "/repos/{owner}/{repo}/issues/{issue_number}/labels/{name}")
EDIT = Call("PATCH", "/repos/{owner}/{repo}/issues/comments/{comment_id}")


def used_up(pacing: Pacing, call: Call, at: datetime) -> int:
    """How many of these calls fit now."""
    sent = 0
    while pacing.admit(call, RequestPriority.NOW, at) is None:
        sent += 1
    return sent


def test_rest_and_graphql_have_points_of_their_own() -> None:
    """900 and 2,000 a minute: neither API holds back the other."""
    pacing = Pacing(DOCUMENTED)
    assert used_up(pacing, READ, START) + 5 * used_up(pacing, UPDATE, START) == 484 + 40
    assert used_up(pacing, QUERY, START) == 1170
    half = START + MINUTE / 2
    assert (used_up(pacing, READ, half), used_up(pacing, QUERY, half)) == (222, 630)
    full = START + MINUTE - timedelta(microseconds=1)
    assert (used_up(pacing, READ, full), used_up(pacing, QUERY, full)) == (0, 0)


def test_candidates_are_built_from_the_points_of_merges_and_their_drafts_are_content() -> None:
    """GitHub marks creating a pull request as content, merging branches not; a mutation costs five of GraphQL."""
    merge, draft = (Call("POST", f"/repos/{{owner}}/{{repo}}/{name}") for name in ("merges", "pulls"))
    mutation = Call("POST", GRAPHQL, body={"query": "mutation UpdateRefs { updateRefs { clientMutationId } }"})
    pacing = Pacing(DOCUMENTED)
    used_up(pacing, READ, START)
    assert used_up(pacing, merge, START) == 8
    assert [content_of(call) for call in (merge, draft, mutation)] == [None, "merge", None]
    assert (points_kind(mutation), points_of(mutation)) == (points_kind(QUERY), 5)


def test_calls_wait_at_most_half_a_minute_once_points_are_used_up() -> None:
    """Else all queues are blocked for the rest of a minute that a burst used up in its first seconds."""
    pacing = Pacing(DOCUMENTED)
    used_up(pacing, READ, START)
    assert pacing.admit(READ, RequestPriority.NOW, START) <= MINUTE / 2 + timedelta(seconds=1)  # type: ignore[operator]


def test_points_are_reserved_ahead_only_while_there_are_plenty() -> None:
    """What is reserved ahead and not used is missing for a minute: a third of all points, where processes die."""
    pacing = Pacing(DOCUMENTED)
    for _ in range(250):
        assert pacing.admit(READ, RequestPriority.NOW, START) is None
    assert [pacing.reserve_points(POINTS, 20, START) for _ in range(2)] == [13, 0]
    assert pacing.admit(READ, RequestPriority.NOW, START) is None


def test_updates_and_merges_find_room_where_reads_take_each_point_that_becomes_free() -> None:
    """A write needs five points at once; else a queue would look at its front again and again, and land nothing."""
    pacing, now = Pacing(DOCUMENTED), START
    for _ in range(2000):
        pacing.admit(READ, RequestPriority.NOW, now)
        now += timedelta(milliseconds=20)
    assert pacing.admit(READ, RequestPriority.NOW, now) is not None
    assert pacing.admit(LABEL, RequestPriority.NOW, now) is None, "what people are told counts the merges that wait"
    for call in (UPDATE, MERGE) * 3:
        assert pacing.admit(call, RequestPriority.NOW, now) is None


def test_notices_leave_points_to_merges() -> None:
    """While many merges wait, urgent check runs and labels fill half, and others four tenths; merges find room."""
    for priority, room in ((RequestPriority.NOW, 263), (RequestPriority.BACKGROUND, 210)):
        pacing = Pacing(DOCUMENTED)
        crowded = replace(CHECK_RUN, merges_ahead=WaitCount(100))
        sent = 0
        while pacing.admit(crowded, priority, START) is None:
            sent += 1
        assert sent == room // 5
        assert pacing.admit(replace(LABEL, merges_ahead=WaitCount(100)), priority, START) is not None
        assert pacing.admit(UPDATE, RequestPriority.NOW, START) is None
        assert pacing.admit(MERGE, RequestPriority.NOW, START) is None


def test_notices_leave_no_more_points_than_the_waiting_merges_may_need() -> None:
    """Three merges need sixty points; where none waits, all points are there to tell what became of them."""
    assert used_up(Pacing(DOCUMENTED), replace(CHECK_RUN, merges_ahead=WaitCount(3)), START) == (526 - 60) // 5
    assert used_up(Pacing(DOCUMENTED), CHECK_RUN, START) == 526 // 5


TEN = 10
OF_ONE = (
    *((call, RequestPriority.NOW) for call in (*[READ] * 5, UPDATE, MERGE)),
    *((call, RequestPriority.BACKGROUND) for call in (COMMENT, CHECK_RUN, EDIT)),
    *((call, RequestPriority.NOW) for call in (LABEL, CHECK_RUN, COMMENT)),
)
"""What all notices about one pull request cost of REST's points: 45."""


@pytest.mark.parametrize("at_once", [True, False])
def test_ten_pull_requests_wait_for_no_limit(at_once: bool) -> None:
    """A small team, or a person who tries the demo, waits for no limit, even on a machine that needs no time."""
    pacing, now = Pacing(DOCUMENTED), START
    calls = [(number, call, priority) for number in range(TEN) for call, priority in OF_ONE]
    merged = 0
    for _, call, priority in sorted(calls, key=lambda each: OF_ONE.index(each[1:])) if at_once else calls:
        merged += call is MERGE
        waiting = replace(call, merges_ahead=WaitCount(TEN - merged))
        assert pacing.admit(waiting, priority, now) is None
        now += timedelta(milliseconds=10)


LANDING = (*[READ] * 4, UPDATE, *[READ] * 6, MERGE, READ)
NOTICES = (CHECK_RUN, COMMENT, LABEL, COMMENT)
CALL = timedelta(milliseconds=50)


@dataclass
class Quick:
    """Simulate pull requests that land one by one in their queues, on a machine that needs no time.

    Three processes share the queues. Each sees the calls of all, and computes by itself when to return.
    """

    processes: list[Pacing] = field(default_factory=lambda: [Pacing(DOCUMENTED) for _ in range(3)])
    sent: list[tuple[str, datetime, int]] = field(default_factory=list)
    merges_waiting: int = 0
    _gone: int = 0
    """How many of those sent have left the window of a minute."""

    def admit(self, process: int, call: Call, now: datetime) -> timedelta | None:
        pacing = self.processes[process % 3]
        while self._gone < len(self.sent) and now - self.sent[self._gone][1] >= MINUTE:
            self._gone += 1
        pacing.fill(self.sent[self._gone :])
        wait = pacing.admit(replace(call, merges_ahead=WaitCount(self.merges_waiting)), RequestPriority.NOW, now)
        if wait is None:
            self.merges_waiting -= call is MERGE
            self.sent.append((points_kind(call), now, points_of(call)))
            if (kind := content_of(call)) is not None:
                self.sent.append((kind, now, 1))
        return wait

    def longest_wait(self, queues: int, pulls: int) -> timedelta:
        """Of any queue for its next landing; the label's hint is followed before, the words are written beside it."""
        due: list[tuple[datetime, int, int, tuple[Call, ...]]] = []
        landed = dict.fromkeys(range(queues), START)
        longest, self.merges_waiting = timedelta(0), pulls
        for queue in range(queues):
            heappush(due, (START, queue, queue, LANDING * (pulls // queues)))
        for words in range(queues, queues + pulls):
            heappush(due, (START, words, words, NOTICES))
        while due:
            now, number, process, calls = heappop(due)
            wait = self.admit(process, calls[0], now)
            if wait is not None:
                heappush(due, (now + max(wait, timedelta(seconds=1)), number, process + 1, calls))
                continue
            if number < queues and calls[0] is MERGE:
                longest, landed[number] = max(longest, now - landed[number]), now
            if len(calls) > 1:
                heappush(due, (now + CALL, number, process, calls[1:]))
        return longest


def test_every_queue_lands_something_each_minute_however_quick_the_machine() -> None:
    """Labels on dozens of pull requests need minutes of points: a call that comes back in its time finds room."""
    assert Quick().longest_wait(queues=12, pulls=60) < MINUTE * 0.75
