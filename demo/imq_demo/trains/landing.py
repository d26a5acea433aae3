"""Land the pull requests in one mode, with an emulator and a bot of its own, and measure what it took."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from github_emulator import GitHub, Job, PullRequestHandle, RepositoryHandle, Trigger, WorkflowRunner
from imq_demo.environment import BASE, LABEL, Parts, open_parts
from imq_demo.observe import contradictions_left, observe_queue
from imq_demo.trains import train_changes
from imq_demo.trains.figures import BaseState, Figures
from imq_demo.trains.train_changes import TrainChange

_CI = timedelta(seconds=8)
_JITTER = timedelta(seconds=1)
_POLL_SECONDS = 0.1
_PEOPLE = ("ada", "grace", "niklaus")
_SETTINGS = {"IMQ_MAX_QUEUE_DEPTH": "0"}


@dataclass(frozen=True, slots=True)
class LandingMode:
    """A mode of landing: so many runs of several pull requests at once; 0: one pull request after the other."""

    runs: int

    @property
    def name(self) -> str:
        """Return its name as people read it."""
        if not self.runs:
            return "one by one"
        return f"trains, {self.runs} run{'s' if self.runs > 1 else ''} at once"


@dataclass(slots=True)
class ModeRun:
    """One mode at work."""

    mode: LandingMode
    parts: Parts
    runner: WorkflowRunner
    changes: Sequence[TrainChange]
    pulls: list[PullRequestHandle] = field(default_factory=list)
    queued_at: datetime | None = None
    ended_at: datetime | None = None
    _before: tuple[int, int, int] = (0, 0, 0)

    @property
    def maintainer(self) -> str:
        """Return the login of the person who queues them all."""
        return _PEOPLE[0]

    @property
    def page(self) -> str:
        """Return the address of the page of its queue."""
        return f"{self.parts.bot.url}/repositories/{train_changes.NAME}/branches/{BASE}"

    @property
    def resolved(self) -> int:
        """Return how many have landed or have left the queue."""
        return sum(pull.merged or LABEL not in pull.labels for pull in self.pulls) if self.queued_at else 0

    @property
    def finished(self) -> bool:
        """Whether IMQ is done with all of them."""
        if self.queued_at is None or self.resolved < len(self.pulls):
            return False
        queue = observe_queue(self.parts.database)
        return not queue.places and not queue.unsent

    async def open_all(self, deadline: float) -> None:
        """Open all pull requests, wait for their CI, move the base, and queue them all at once."""
        repository = self.parts.repository
        for change in self.changes:
            author = _PEOPLE[change.number % len(_PEOPLE)]
            head = f"{author}/recipe-{change.number + 1}"
            self.pulls.append(
                repository.open_pull_request(change.title, head=head, base=BASE, by=author, files=change.files)
            )
        await _until(lambda: all(_is_green(pull) for pull in self.pulls), deadline)
        repository.push(BASE, train_changes.BASE_LIMIT, "Limit temperatures", by=_PEOPLE[0])
        record = repository.record
        self._before = self._attempts(), len(record.activities), self.parts.server.requests.by_template().total()
        self.queued_at = self.parts.github.clock.now()
        for pull in self.pulls:
            pull.label(LABEL, by=_PEOPLE[0])

    async def wait(self, deadline: float) -> bool:
        """Wait until IMQ is done; return whether it was before the deadline."""
        in_time = await _until(lambda: self.finished, deadline, self.parts.bot.check)
        self.ended_at = self.parts.github.clock.now()
        return in_time

    async def contradictions(self) -> list[str]:
        """Return what IMQ's records, and its words on GitHub, contradict."""
        url = f"sqlite:///{self.parts.database}"
        return await contradictions_left(url, self.parts.github, self.parts.app)

    def figures(self) -> Figures:
        """Return what it took so far."""
        runs, activities, requests = self._before
        since, now = self.queued_at, self.ended_at or self.parts.github.clock.now()
        assert since is not None, "the pull requests were queued"
        merged = {change.number: pull.record.merged_at for change, pull in self._pairs() if pull.merged}
        return Figures(
            name=self.mode.name,
            seconds=(now - since).total_seconds(),
            landed=tuple((at - since).total_seconds() for at in merged.values() if at is not None),
            bad_landed=tuple(
                change.title
                for change in self.changes
                if change.number in merged
                and (change.bad or (change.partner in merged and change.partner > change.number))
            ),
            good_left=tuple(
                change.title
                for change in self.changes
                if change.number not in merged and not change.bad and change.partner not in merged
            ),
            ejected=sum(not pull.merged for pull in self.pulls),
            runs=self._attempts() - runs,
            requests=self.parts.server.requests.by_template().total() - requests,
            tips=tuple(self._tips(activities)),
        )

    def _attempts(self) -> int:
        """Return how often CI ran: a run that was run again counts twice."""
        return sum(run.attempt for run in self.runner.runs)

    def _pairs(self) -> list[tuple[TrainChange, PullRequestHandle]]:
        return list(zip(self.changes, self.pulls, strict=True))

    def _tips(self, since: int) -> list[BaseState]:
        """Return where the base rested, and whether CI passed on exactly that tree before."""
        record, git = self.parts.repository.record, self.parts.repository.record.git
        passed = {git.tree(run.tested_sha) for run in self.runner.runs if run.suite.conclusion == "success"}
        return [
            BaseState(move.after, train_changes.passes(git.files(move.after)), git.tree(move.after) in passed)
            for move in record.activities[since:]
            if move.ref == f"refs/heads/{BASE}" and move.after is not None
        ]


@asynccontextmanager
async def open_mode(
    mode: LandingMode, changes: Sequence[TrainChange], *, speed: float, seed: int, lag: float = 0.0
) -> AsyncIterator[ModeRun]:
    """Start an emulator and a bot for one mode; `lag`: how many seconds old the state is that reads show."""
    runners: list[WorkflowRunner] = []

    def build(github: GitHub) -> RepositoryHandle:
        repository = _repository(github, mode.runs)
        triggers = [Trigger("push", branches=["imq/**"]), Trigger("pull_request")]
        job = Job(train_changes.CHECK, duration=_CI, jitter=_JITTER, judge=train_changes.passes)
        runners.append(repository.add_workflow("CI", jobs=[job], on=triggers, path=train_changes.WORKFLOW))
        app = github.actions.app(repository.record)
        repository.protect(BASE, required_checks=[(train_changes.CHECK, app.id)], strict=True, by=_PEOPLE[0])
        return repository

    async with open_parts(build, speed=speed, seed=seed, settings=_SETTINGS) as parts:
        parts.server.lag.set(timedelta(seconds=lag))
        parts.server.authorization.visitor = _PEOPLE[0]
        yield ModeRun(mode, parts, runners[0], changes)


def _repository(github: GitHub, runs: int) -> RepositoryHandle:
    github.create_user(train_changes.NAME.partition("/")[0], "Organization")
    maintainer, *others = _PEOPLE
    roles = {maintainer: "admin"} | dict.fromkeys(others, "write")
    return github.create_repository(
        train_changes.NAME, files=train_changes.start_files(runs), private=False, collaborators=roles
    )


def _is_green(pull: PullRequestHandle) -> bool:
    return any(run.conclusion == "success" for run in pull.check_runs)


async def _until(true: Callable[[], bool], deadline: float, check: Callable[[], None] = lambda: None) -> bool:
    """Wait until a condition holds; return False at the deadline."""
    while not true():
        check()
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(_POLL_SECONDS)
    return True
