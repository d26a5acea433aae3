"""The points of a minute, on the pacing alone and on injected time: REST and GraphQL apart, never used up at once."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush

from bot.gateway.client import GRAPHQL, Call
from bot.gateway.pacing import DOCUMENTED, Pacing, content_of, points_kind, points_of
from queue_engine.core.urgency import Priority

START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
PULL = "/repos/{owner}/{repo}/pulls/{pull_number}"
READ, QUERY = Call("GET", PULL), Call("POST", GRAPHQL)
UPDATE, MERGE = Call("PUT", f"{PULL}/update-branch"), Call("PUT", f"{PULL}/merge")
COMMENT = Call("POST", "/repos/{owner}/{repo}/issues/{issue_number}/comments")
CHECK_RUN = Call("POST", "/repos/{owner}/{repo}/check-runs")
LABEL = Call("DELETE", "/repos/{owner}/{repo}/issues/{issue_number}/labels/{name}")


def used_up(pacing: Pacing, call: Call, at: datetime) -> int:
    """How many of these calls fit now."""
    sent = 0
    while pacing.admit(call, Priority.NOW, at) is None:
        sent += 1
    return sent


def test_rest_and_graphql_have_points_of_their_own() -> None:
    """900 and 2,000 a minute: neither API holds back the other."""
    pacing = Pacing(DOCUMENTED)
    assert used_up(pacing, READ, START) == 405
    assert used_up(pacing, QUERY, START) == 900
    half = START + MINUTE / 2
    assert (used_up(pacing, READ, half), used_up(pacing, QUERY, half)) == (405, 900)
    full = START + MINUTE - timedelta(microseconds=1)
    assert (used_up(pacing, READ, full), used_up(pacing, QUERY, full)) == (0, 0)


def test_nobody_waits_longer_than_half_a_minute_once_points_are_used_up() -> None:
    """Else all queues stand still for the rest of a minute that a burst used up in its first seconds."""
    pacing = Pacing(DOCUMENTED)
    used_up(pacing, READ, START)
    assert pacing.admit(READ, Priority.NOW, START) <= MINUTE / 2 + timedelta(seconds=1)  # type: ignore[operator]


def test_what_people_are_told_leaves_points_to_merges() -> None:
    """Urgent check runs and labels fill six tenths at most; updates and merges find room behind them."""
    pacing = Pacing(DOCUMENTED)
    assert used_up(pacing, CHECK_RUN, START) == 243 // 5
    assert pacing.admit(LABEL, Priority.NOW, START) is not None
    assert pacing.admit(UPDATE, Priority.NOW, START) is None
    assert pacing.admit(MERGE, Priority.NOW, START) is None


LANDING = (*[READ] * 4, UPDATE, *[READ] * 6, MERGE, READ)
TOLD = (CHECK_RUN, COMMENT, LABEL, COMMENT)
CALL = timedelta(milliseconds=50)


@dataclass
class Quick:
    """A machine that needs no time: pull requests in queues that land by as many calls as they need, one by one.

    Each queue is worked on by a process of three; all find what all have sent, and each tells its own when to return.
    """

    processes: list[Pacing] = field(default_factory=lambda: [Pacing(DOCUMENTED) for _ in range(3)])
    sent: list[tuple[str, datetime, int]] = field(default_factory=list)
    _gone: int = 0
    """How many of these have left the window of a minute."""

    def admit(self, process: int, call: Call, now: datetime) -> timedelta | None:
        pacing = self.processes[process % 3]
        while self._gone < len(self.sent) and now - self.sent[self._gone][1] >= MINUTE:
            self._gone += 1
        pacing.fill(self.sent[self._gone :])
        wait = pacing.admit(call, Priority.NOW, now)
        if wait is None:
            self.sent.append((points_kind(call), now, points_of(call)))
            if (kind := content_of(call)) is not None:
                self.sent.append((kind, now, 1))
        return wait

    def longest_wait(self, queues: int, pulls: int) -> timedelta:
        """Of any queue for its next landing; the label's hint is followed before, the words are written beside it."""
        due: list[tuple[datetime, int, int, tuple[Call, ...]]] = []
        landed = dict.fromkeys(range(queues), START)
        longest = timedelta(0)
        for queue in range(queues):
            heappush(due, (START, queue, queue, LANDING * (pulls // queues)))
        for words in range(queues, queues + pulls):
            heappush(due, (START, words, words, TOLD))
        while due:
            now, number, turns, calls = heappop(due)
            wait = self.admit(turns, calls[0], now)
            if wait is not None:
                heappush(due, (now + max(wait, timedelta(seconds=1)), number, turns + 1, calls))
                continue
            if number < queues and calls[0] is MERGE:
                longest, landed[number] = max(longest, now - landed[number]), now
            if len(calls) > 1:
                heappush(due, (now + CALL, number, turns, calls[1:]))
        return longest


def test_every_queue_lands_something_each_minute_however_quick_the_machine() -> None:
    """Labels on dozens of pull requests need minutes of points: a call that comes back in its time finds room."""
    assert Quick().longest_wait(queues=12, pulls=60) < MINUTE * 0.75
