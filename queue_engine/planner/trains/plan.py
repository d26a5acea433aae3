"""Plan the runs of a queue: qualify members in small groups side by side, combine what qualified, land what passed.

A wave of nested runs ends at its first bad member, however many runs it has. So groups that may well fail are tested as
siblings on the same base, and nested only on runs that are probably good. Members that passed are carried along by
later runs, and land with the first of them that passes and extends the base.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import ceil, log2

from queue_engine.planner.trains.model import FailingRun, Member, NewRun, Plan, TrainRun, Trains
from queue_engine.planner.trains.suspicion import Evidence, weigh
from queue_engine.planner.trains.transitions import run_failed
from queue_engine.rules.priority import HANGING, has_waited, yields_after

_ANCHOR = 0.65
"""Runs are nested on an active one that is good by at least this chance."""
_ANCHOR_IN_BACKLOG = 0.9
"""The same while more members than free slots wait: siblings then cost no time."""
_CARRIED = 0.8
"""A run carries qualified members while they are good by at least this chance."""
_CARRIED_ALONE = 0.6
"""The same of a run that tests nothing else."""
_COMBINING_WAIT = 1.5
"""Usual runs that a qualified member waits before a run is started for it alone."""
_ALONE = 0.5
"""A member that makes its run fail by this chance is tested alone: on others, its failure would eject no one."""
_LEAST_PART = 5
"""One slot of so many is always left, and one at least."""
_ROUNDING = 1e-12

_DOUBT = 0.02
"""A member is ejected when it makes its run fail by a chance of all but this."""

_DOUBT_WHEN_LATE = 0.10
"""The same once the oldest member has waited `_LATE_RUNS` usual runs."""

_LATE_RUNS = 6.0

_MOST_TESTS = 8
"""A member whose tree alone has failed so often is ejected, however often runs flake (P5)."""

_MOST_YIELDS = 9
"""How many runs of an agent in a row end for people. With three, people's p95 beside agents is three percent higher."""

_LOST_BENEATH = 0.25
"""A run is cancelled when what lies beneath its own members is good by less than this chance."""

_LIKELY = 0.5


def _new_runs(trains: Trains, evidence: Evidence, now: float) -> tuple[NewRun, ...]:
    """Return the runs to start, in order; no more than slots are free."""
    started: list[NewRun] = []
    slots = affordable(trains, now)
    while len(trains.runs) < slots:
        runs = _Choice(trains, evidence, now).runs()
        if not runs:
            break
        for run in runs[: slots - len(trains.runs)]:
            started.append(run)
            # Numbers of stored runs are positive.
            trains = trains.with_run(TrainRun(-len(started), run.content, run.tested, now))
    return tuple(started)


@dataclass(frozen=True, slots=True)
class _Choice:
    """The choice of what to start next, while one slot at least is free."""

    trains: Trains
    evidence: Evidence
    now: float

    def runs(self) -> Sequence[NewRun]:
        """Return the next run; several where members failed together that passed apart; nothing when nothing helps."""
        active = {member for each in self.trains.runs for member in each.content}
        untested = [each for each in self.trains.queue if not each.qualified and each.id not in active]
        free = self.trains.slots - len(self.trains.runs)
        anchor = self._anchor(in_backlog=len(untested) > free)
        preempting: Sequence[Member] = [each for each in untested if each.preempts]
        most = max(len(untested), 1)
        tested = (*self.trains.passed, *(each for each in self.trains.runs if each.extends_base))
        known = {frozenset(each.content) for each in tested}
        works = [preempting] if preempting else [*self._work(active), ()]
        for new in (runs for work in works for runs in self._options(work, anchor, most, alone=bool(preempting))):
            new = [self._whole(each) for each in new]
            # What has passed waits for a better run to end, and lands then. No run repeats one under way.
            if new := [each for each in new if frozenset(each.content) not in known]:
                return new
        return []

    def _options(
        self, work: Sequence[Member], anchor: Sequence[int], untested: int, *, alone: bool
    ) -> Iterator[Sequence[NewRun]]:
        """Yield the runs to start for this work, the best ones first; `alone`: none of qualified members alone."""
        if len(work) > 1 and all(each.qualified and self._suspected(each) for each in work):
            yield self._prefixes(work)
            return
        combines = not alone and self._combines(anchor, urgent=any(not each.qualified for each in work))
        if combines and (carried := self._carried(anchor, _CARRIED_ALONE)[: self.trains.most]):
            yield [_run(anchor, carried)]
        if work:
            share = 1 if self.trains.fills else self.trains.slots - len(self.trains.runs)
            yield self._tests(work, anchor, ceil(max(untested, len(work)) / share))

    def _whole(self, run: NewRun) -> NewRun:
        """Return the run with the members that land before its own; of what failed on this base, a part.

        It tests those of them that are no good base: a run on what probably fails is lost.
        """
        members = {each.id: each for each in self.trains.queue}
        if not any(members[each].after for each in run.content if each in members):
            return run
        chosen, content = run.content, in_order(run.content, members)
        failed = {each.content for each in self.trains.failures if each.on_base}
        while content != run.content and len(content) > 1 and frozenset(content) in failed:
            if len(chosen) > 1:
                chosen = chosen[:-1]
                content = in_order(chosen, members)
            else:
                content = content[:-1]
        brought = (members[each] for each in content if each not in run.content)
        added = {each.id for each in brought if not each.qualified or self._suspected(each)}
        return NewRun(content, (run.tested & {*content}) | added or frozenset(content[-1:]))

    def _tests(self, work: Sequence[Member], anchor: Sequence[int], most: int) -> Sequence[NewRun]:
        """Return the run that tests the first of these, on what probably passes."""
        most = min(most, self.trains.most)
        if self.trains.splits_singly and any(self._suspected(each) for each in work):
            most = 1
        beneath = (*anchor, *self._carried(anchor, _CARRIED))
        chosen = self._until_even(work, beneath, most)
        if not chosen or (len(chosen) == 1 and self.evidence.chances[chosen[0]] >= _ALONE):
            # What failed alone may have flaked: it is the only content that is tested again.
            return [_run((), chosen or [work[0].id])]
        return [_run(tuple(each for each in beneath if each not in chosen), chosen)]

    def _anchor(self, in_backlog: bool) -> tuple[int, ...]:
        """Return the longest active content that a run may be nested on; nothing stands for the base."""
        least = _ANCHOR_IN_BACKLOG if in_backlog else _ANCHOR
        extendable = (
            each.content
            for each in (*self.trains.runs, *self.trains.passed)
            if each.extends_base and self.evidence.good(each.content) >= least
        )
        return max(extendable, key=len, default=())

    def _carried(self, anchor: Sequence[int], least: float) -> tuple[int, ...]:
        """Return qualified members to merge onto the anchor, in order."""
        carried: list[int] = []
        good = 1.0
        for each in self.trains.queue:
            if not each.qualified or each.id in anchor or self.evidence.foretells((*anchor, *carried, each.id)):
                continue
            good *= 1 - self.evidence.chances[each.id]
            if good < least and (carried or least > _CARRIED_ALONE):
                break
            carried.append(each.id)
        return tuple(carried)

    def _combines(self, anchor: Sequence[int], urgent: bool) -> bool:
        """Whether to start a run of qualified members alone; `urgent` while others need a test."""
        waiting = [each for each in self.trains.queue if each.qualified_at is not None and each.id not in anchor]
        if not waiting:
            return False
        qualified = {each.id for each in self.trains.queue if each.qualified}
        combining = [each for each in self.trains.runs if each.extends_base and each.tested <= qualified]
        if any(waiting[0].id in each.content for each in combining):
            return False
        longest = max(self.now - (each.qualified_at or 0.0) for each in waiting)
        return (
            not urgent
            or len(combining) < int(self._combining_share() * self.trains.slots)
            or (not combining and longest > _COMBINING_WAIT * self.trains.usual_seconds)
        )

    def _combining_share(self) -> float:
        """Return the share of slots for runs of qualified members alone: by the information in their outcomes."""
        later = entropy(self.trains.estimates.fails_later.share)
        first = entropy(self.trains.estimates.fails.share)
        return later / (later + first) if later else 0.0

    def _work(self, active: set[int]) -> Iterator[Sequence[Member]]:
        """Yield members to test: suspects that no run tests, fresh ones, other suspects, those that passed long ago."""
        tested = {member for each in self.trains.runs for member in each.tested}
        failures = self.evidence.unexplained
        retested = [each for each in failures if each.suspects & tested]
        yield from (self._suspects(each, tested) for each in failures if not each.suspects & tested)
        if fresh := [
            each
            for each in self.trains.queue
            if not each.qualified and each.id not in active and not self._suspected(each)
        ]:
            yield fresh[:1] if fresh[0].head_fails else [each for each in fresh if not each.head_fails]
        for failed in retested:
            suspects = self._suspects(failed, tested)
            if suspects and not all(each.qualified for each in suspects):
                yield suspects
        # They passed on an older base. Where that says little today, slots are better used than free.
        waiting = active.union(*(each.content for each in self.trains.passed))
        if idle := [each for each in self.trains.queue if each.qualified and each.id not in waiting]:
            yield idle

    def _suspects(self, failed: FailingRun, tested: set[int]) -> Sequence[Member]:
        """Return the suspects that a run should test next: all of them are qualified only where none is not."""
        suspects = [each for each in self.trains.queue if each.id in failed.suspects]
        undecided = [each for each in suspects if not each.qualified] or suspects
        return [each for each in undecided if each.id not in tested]

    def _suspected(self, member: Member) -> bool:
        return any(member.id in each.suspects for each in self.evidence.unexplained)

    def _prefixes(self, members: Sequence[Member]) -> Sequence[NewRun]:
        """Return nested runs of members that failed together, cut at equal shares of suspicion."""
        suspects = [each.id for each in members]
        sums = list(accumulate(self.evidence.chances[each] for each in suspects))
        parts = 1 + max(1, min(self.trains.slots // 2, len(suspects) - 1))
        shares = (sums[-1] * part / parts for part in range(1, parts))
        cuts = {next(index for index, total in enumerate(sums, 1) if total >= share - _ROUNDING) for share in shares}
        cuts = {min(cut, self.trains.most) for cut in cuts}
        prefixes = [suspects[:cut] for cut in sorted(cuts - {len(suspects)})] or [suspects[:1]]
        return [_run((), each) for each in prefixes]

    def _until_even(self, members: Sequence[Member], beneath: Sequence[int], most: int) -> list[int]:
        """Return the first members, while testing one more saves runs: by Golomb's rule, as in a run-length code.

        None joins a run whose outcome is known with it. Where two in five fail, each is tested alone.
        """
        chosen: list[int] = []
        good = 1.0
        for each in members:
            rest = good * (1 - self.evidence.chances[each.id])
            if len(chosen) == most or (chosen and good + rest <= 1):
                break
            if not self.evidence.foretells((*beneath, *chosen, each.id)):
                chosen.append(each.id)
                good = rest
        return chosen


def affordable(trains: Trains, now: float) -> int:
    """Return how many runs may be active at once.

    Once a usual run has passed in which no member joined, more runs at once have to be paid by runs that trains saved.
    One run that tests many costs least. While members keep joining, a queue with fewer slots might never become short.
    """
    if any(each.since > now - trains.usual_seconds for each in trains.queue):
        return trains.slots
    return min(trains.slots, max(1, trains.slots // _LEAST_PART, int(trains.saved)))


def incomplete(trains: Trains) -> tuple[Member, ...]:
    """Return the members that no run has tested, where a run may test more."""
    known = {member for run in (*trains.runs, *trains.passed) for member in run.content}
    known |= {member for run in trains.failures for member in run.suspects}
    fresh = tuple(each for each in trains.queue if not each.qualified and each.id not in known)
    return fresh if len(fresh) < trains.most else ()


def in_order(some: Sequence[int], members: Mapping[int, Member]) -> tuple[int, ...]:
    """Return these members with all that land before them, each after those."""
    found: list[int] = []
    added: set[int] = set()

    def add(member: int) -> None:
        if member not in added:
            added.add(member)
            for each in members[member].after if member in members else ():
                add(each)
            found.append(member)

    for each in some:
        add(each)
    return tuple(found)


def _run(beneath: Sequence[int], tested: Sequence[int]) -> NewRun:
    return NewRun((*beneath, *tested), frozenset(tested))


def entropy(chance: float) -> float:
    """Return the information in an outcome of this chance, in bits."""
    if not 0 < chance < 1:
        return 0.0
    return -chance * log2(chance) - (1 - chance) * log2(1 - chance)


def plan(trains: Trains, now: float) -> Plan:
    """Return the next landing, or else the ejections, or else the runs to cancel and to start.

    What people queued is planned as if there were no agents; a run of theirs keeps its slot near its end, or if people
    have ended those before it. Agents have what is left: runs of their own, which land while no run or failure of
    people is on the present base.
    """
    if any(each.after for each in trains.queue):
        members = {each.id: each for each in trains.queue}
        trains = replace(trains, queue=tuple(members[each] for each in in_order([*members], members)))
    if not (yielding := _yielding(trains, now)):
        return _planned(trains, now)
    people, agents = _parted(trains, yielding)
    urgent = any(each.preempts for each in people.queue)
    yields = [each for each in agents.runs if urgent or _yields(each, agents, now)]
    # One that hangs ends first, then the youngest.
    yields.sort(key=lambda each: hangs_at(trains, each) <= now)
    slots = trains.slots - (len(agents.runs) - len(yields))
    made = _planned(replace(people, slots=max(slots, min(trains.slots, len(people.runs)))), now)
    if made.land is not None or made.eject:
        return made
    left = len(people.runs) - len(made.cancel) + len(made.start)
    ending = yields[max(0, len(yields) - max(0, left + len(agents.runs) - trains.slots)) :]
    agents = replace(agents, slots=trains.slots - left, runs=tuple(each for each in agents.runs if each not in ending))
    extended = any(each.extends_base for each in people.runs)
    other = _planned(agents, now, lands=not extended and not any(each.on_base for each in people.failures))
    if other.land is not None or other.eject:
        return other
    ended = tuple(each.id for each in ending)
    return Plan(cancel=(*made.cancel, *ended, *other.cancel), start=(*made.start, *other.start), yields=ended)


def _yields(run: TrainRun, agents: Trains, now: float) -> bool:
    """Whether a run of agents ends for people: for each of its members, so many in a row at most."""
    own = [each for each in agents.queue if each.id in run.content]
    ends = ((each.since, _end_of_yielding(each, agents)) for each in own)
    late = any(has_waited(since, end, now) for since, end in ends if end is not None)
    often = any(each.yields >= _MOST_YIELDS for each in own)
    return not often and yields_after((now - run.started) / agents.usual_seconds, late=late)


def hangs_at(trains: Trains, run: TrainRun) -> float:
    """Return when a run takes so long that it may hang: of agents, it ends for people then."""
    return run.started + HANGING * trains.usual_seconds


def _end_of_yielding(member: Member, trains: Trains) -> float | None:
    """Return when a member of an agent has waited long enough to join the trains of people; None for one of people."""
    late = member.since + _LATE_RUNS * trains.usual_seconds
    return None if member.yields_until is None else max(member.yields_until, late)


def _planned(trains: Trains, now: float, *, lands: bool = True) -> Plan:
    """Return the plan for members of whom none yields; without `lands` none lands."""
    evidence = weigh(trains)
    if lands and (run := _landing(trains, evidence, now)) is not None:
        return Plan(land=run)
    if eject := _ejections(trains, evidence, now):
        return Plan(eject=eject)
    cancel = _lost_runs(trains, evidence)
    cancel += _preempted_runs(trains, cancel)
    left = replace(trains, runs=tuple(each for each in trains.runs if each.id not in cancel))
    return Plan(cancel=cancel, start=_new_runs(left, evidence, now))


def _yielding(trains: Trains, now: float) -> frozenset[int]:
    """Return the members that yield: those of agents that have not waited long enough, as far as they are apart.

    A member no longer yields where one that does not lands after it, or is with it in a run or a failure.
    """
    found = {each.id for each in trains.queue if (end := _end_of_yielding(each, trains)) is not None and end > now}
    queued = {each.id for each in trains.queue}
    groups = [{*each.content} & queued for each in (*trains.runs, *trains.passed)]
    groups += [{*each.content} & queued for each in trains.failures]
    while found:
        mixed = [each for each in groups if not each <= found and each & found]
        mixed += [{*each.after} & found for each in trains.queue if each.id not in found and found & {*each.after}]
        if not mixed:
            break
        found = found.difference(*mixed)
    return frozenset(found)


def _parted(trains: Trains, yielding: frozenset[int]) -> tuple[Trains, Trains]:
    """Return what a plan for people may see, and one for the agents that yield: runs are of either."""
    waiting = set[int]()
    for each in trains.queue:
        if each.id in yielding and not yielding - waiting >= {*each.after}:
            waiting.add(each.id)

    def part(of_agents: bool) -> Trains:
        def has(content: Iterable[int]) -> bool:
            return yielding.isdisjoint(content) is not of_agents

        return replace(
            trains,
            queue=tuple(each for each in trains.queue if has({each.id}) and each.id not in waiting),
            runs=tuple(each for each in trains.runs if has(each.content)),
            passed=tuple(each for each in trains.passed if has(each.content)),
            failures=tuple(each for each in trains.failures if has(each.content)),
            saved=trains.saved_by_agents if of_agents else trains.saved,
        )

    return part(of_agents=False), part(of_agents=True)


def failure_ejects(trains: Trains, run: TrainRun, now: float) -> bool:
    """Whether the only member of this run is ejected if it fails, without another run."""
    failed = run_failed(trains, run)
    return run.content[0] in _ejections(failed, weigh(failed), now)


def _landing(trains: Trains, evidence: Evidence, now: float) -> TrainRun | None:
    """Return the longest run that passed and that no better active run would lose by."""
    for run in sorted(trains.passed, key=lambda run: (-len(run.content), run.id)):
        rivals = (each for each in trains.runs if each.extends_base and each.content[: len(run.content)] != run.content)
        if not any(_outweighs(each, run, trains, evidence, now) for each in rivals):
            return run
    return None


def _outweighs(rival: TrainRun, run: TrainRun, trains: Trains, evidence: Evidence, now: float) -> bool:
    good = evidence.good(rival.content)
    progress = min(1.0, (now - rival.started) / trains.usual_seconds)
    return good >= _LIKELY and good * len(rival.content) * progress > len(run.content)


def _ejections(trains: Trains, evidence: Evidence, now: float) -> tuple[int, ...]:
    """Return the members that are as good as proved to fail on the present base, and that no run tests alone."""
    late = bool(trains.queue) and now - min(each.since for each in trains.queue) > _LATE_RUNS * trains.usual_seconds
    doubt = _DOUBT_WHEN_LATE if late else _DOUBT
    retested = {each.content[0] for each in trains.runs if len(each.content) == 1 and each.extends_base}
    alone = {next(iter(each.content)): each.times for each in trains.failures if len(each.content) == 1}
    return tuple(
        each.id
        for each in trains.queue
        if each.id not in retested
        and (alone.get(each.id, 0) >= _MOST_TESTS or (each.id in alone and evidence.chances[each.id] >= 1 - doubt))
    )


def _lost_runs(trains: Trains, evidence: Evidence) -> tuple[int, ...]:
    """Return the runs whose outcome would change nothing."""
    queued = {each.id: each for each in trains.queue}
    lost = []
    for run in trains.runs:
        ejected = any(each not in queued for each in run.content)
        undecided = any(
            not queued[each].qualified or _suspected(each, trains) or run.extends_base
            for each in run.tested
            if each in queued
        )
        if ejected or not undecided or evidence.good(run.beneath) < _LOST_BENEATH:
            lost.append(run.id)
    return tuple(lost)


def _suspected(member: int, trains: Trains) -> bool:
    return any(member in each.suspects for each in trains.failures)


def _preempted_runs(trains: Trains, cancelled: tuple[int, ...]) -> tuple[int, ...]:
    """Return the youngest runs, as many as hotfixes need that no run tests."""
    left = [each for each in trains.runs if each.id not in cancelled]
    active = {member for each in left for member in each.content}
    waiting = sum(each.preempts and each.id not in active and not each.qualified for each in trains.queue)
    hotfixes = {each.id for each in trains.queue if each.preempts}
    needed = min(1, waiting) - (trains.slots - len(left))
    victims = [each for each in reversed(left) if not hotfixes & set(each.content)]
    return tuple(each.id for each in victims[: max(0, needed)])
