"""Arrivals: the pull requests of a clone's history, with when each was queued and which files it changes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, islice

from bot.cli.clone.history import History, HistoryError
from bot.cli.clone.landings import Kind, Landing, judge
from bot.cli.replay.history_files import Timeline

RECENT_DAYS = 90
"""What counts of a history when no range is given: older habits say little of today's team."""
_LEAST = 10
"""Fewer pull requests show nothing."""
_IN_A_ROW = 9
"""So many landings decide which day is the newest, and that all before are older: a single clock may be wrong."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A pull request that was queued. `at` is in minutes since 1970; `bad`: its checks failed, and it was ejected."""

    at: float
    number: int | None
    files: frozenset[str] = frozenset()
    bad: bool = False


@dataclass(frozen=True, slots=True)
class LandingHistory:
    """What a clone shows: landings of pull requests, oldest first, and how many commits of each kind there are."""

    arrivals: Sequence[Arrival]
    kinds: Mapping[Kind, int]


def read_landings(history: History, range_: str | None, *, pushes: bool) -> LandingHistory:
    """Return the landings of a range, or of the last days of HEAD; with `pushes`, direct pushes count as landings.

    Merge, squash and rebase are distinguished as `imq audit` does. The commits of a rebase are one landing. A landing's
    commit was made when somebody merged the pull request, or when a queue built its candidate: that is its arrival.
    Raises HistoryError.
    """
    history.count(range_ or "HEAD")
    kinds: dict[Kind, int] = dict.fromkeys(Kind, 0)
    groups: list[list[Landing]] = []
    for (kind, number), found in groupby(_recent(history, range_), key=lambda each: (each.kind, each.pull_request)):
        commits = list(found)
        kinds[kind] += len(commits)
        if kind is Kind.REBASE and number is not None:
            groups.append(commits)
        elif kind is not Kind.PUSH or pushes:
            groups += ([each] for each in commits)
    if len(groups) < _LEAST:
        raise HistoryError(_too_few(len(groups), range_, kinds, bool(history.heads)))
    changed = history.changed_files([each.commit for group in groups for each in group])
    arrivals = [
        Arrival(
            int(group[0].commit.committed) / 60,
            group[0].pull_request,
            frozenset(path for each in group for path in changed[each.commit.sha]),
        )
        for group in groups
    ]
    return LandingHistory(sorted(arrivals, key=lambda each: each.at), kinds)


def _recent(history: History, range_: str | None) -> Iterator[Landing]:
    """Yield the landings that count, newest first. Those of a machine whose clock was wrong end no history."""
    landings = judge(history, range_ or "HEAD")
    if range_ is not None:
        yield from landings
        return
    first, others, period = list(islice(landings, _IN_A_ROW)), 0, RECENT_DAYS * 86_400
    *_, second, latest = 0, 0, *sorted(int(each.commit.committed) for each in first)
    newest = latest if latest - second <= period else second or latest
    for each in chain(first, landings):
        if newest - period <= int(each.commit.committed) <= newest:
            others = 0
            yield each
        elif (others := others + 1) == _IN_A_ROW:
            return


def _too_few(found: int, range_: str | None, kinds: Mapping[Kind, int], heads: bool) -> str:
    where = f"The range {range_}" if range_ else f"HEAD, in its last {RECENT_DAYS} days,"
    landings = "1 landing" if found == 1 else f"{found} landings"
    sentences = [f"{where} has {landings} of pull requests; a replay needs {_LEAST}. Name a longer range."]
    if kinds[Kind.PUSH]:
        sentences.append(f"{kinds[Kind.PUSH]:,} commits name no pull request: `--pushes` counts them too.")
        if not heads:
            fetch = "git fetch origin '+refs/pull/*/head:refs/remotes/origin/pr/*'"
            sentences.append(f"To recognise rebase landings, get the pull requests: `{fetch}`.")
    return " ".join(sentences)


def of_timeline(timeline: Timeline, landed: Iterable[Arrival]) -> list[Arrival]:
    """Return the pull requests that IMQ queued, with the files that the clone shows for those that landed.

    Those that left for another reason than their checks were never judged, and are left out.
    """
    files = {each.number: each.files for each in landed}
    judged = (each for each in timeline.entries if each.outcome == "landed" or each.by_checks)
    return [
        Arrival(each.since, each.number, files.get(each.number, frozenset()), each.by_checks)
        for each in sorted(judged, key=lambda each: (each.since, each.place))
    ]
