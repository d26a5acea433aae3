"""Perform the steps of a run, each at its time."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from github_emulator import PullRequestHandle
from imq_demo.changes import Change
from imq_demo.environment import BASE, LABEL, Environment
from imq_demo.observe import ObservedPullRequest, ObservedQueue, observe_pull_request, observe_queue
from imq_demo.scenario import Scenario, Step, StepKind
from queue_engine.domain.notice import NoticeKind


@dataclass(slots=True)
class ScenarioRunner:
    """Performs the steps and observes their results. `latest` is the newest event of each pull request."""

    environment: Environment
    scenario: Scenario
    pulls: dict[str, PullRequestHandle] = field(default_factory=dict)
    latest: dict[int, str] = field(default_factory=dict)
    queue: ObservedQueue = field(default_factory=ObservedQueue)
    _steps: list[Step] = field(default_factory=list)
    _last_event: int = 0
    _began: datetime = field(init=False)

    def __post_init__(self) -> None:
        self._steps = list(self.scenario.steps)
        self._began = self.environment.github.clock.now()

    @property
    def elapsed(self) -> timedelta:
        """Return the emulator's time since the scenario began."""
        return self.environment.github.clock.now() - self._began

    @property
    def finished(self) -> bool:
        """Whether all steps are done, and IMQ has nothing left to do or to write."""
        settled = all(pull.settled for pull in self.observed())
        return not self._steps and settled and not self.queue.places and not self.queue.unsent

    def observed(self) -> list[ObservedPullRequest]:
        """Observe every pull request that was opened."""
        bot = self.environment.app.bot.login
        return [observe_pull_request(pull, bot=bot, label=LABEL) for pull in self.pulls.values()]

    def numbers(self) -> Mapping[int, Change]:
        """Return the change of each pull request, by number."""
        changes = {change.key: change for change in self.scenario.changes}
        return {pull.number: changes[key] for key, pull in self.pulls.items()}

    def advance(self) -> None:
        """Perform the steps that are due, and read what the bot did in the meantime."""
        self.environment.bot.check()
        self.queue = observe_queue(self.environment.database, after=self._last_event)
        for event in self.queue.events:
            self.latest[event.number] = event.text
            self._last_event = event.id
        # A step that is not due delays only the later ones of its own pull request.
        waiting: set[str] = set()
        for step in tuple(self._steps):
            if step.after <= self.elapsed and step.key not in waiting and self._is_due(step):
                self._perform(step)
                self._steps.remove(step)
            else:
                waiting.add(step.key)

    def _is_due(self, step: Step) -> bool:
        match step.kind:
            case StepKind.CLOSE | StepKind.PUSH:
                return self.pulls[step.key].number in self.queue.places
            case StepKind.LABEL if self._change(step.key).fix:
                return any(run.conclusion == "failure" for run in self.pulls[step.key].check_runs)
            case StepKind.LABEL_AGAIN:
                pull = self._observe(step.key)
                return pull.settled and pull.notice_kind is NoticeKind.CANCELLED
            case StepKind.FIX:
                return self._observe(step.key).notice_kind is NoticeKind.NOT_READY
            case _:
                return True

    def _observe(self, key: str) -> ObservedPullRequest:
        return observe_pull_request(self.pulls[key], bot=self.environment.app.bot.login, label=LABEL)

    def _change(self, key: str) -> Change:
        return next(change for change in self.scenario.changes if change.key == key)

    def _perform(self, step: Step) -> None:
        change = self._change(step.key)
        if step.kind is StepKind.OPEN:
            self.pulls[step.key] = self._open(change, step.by)
        pull = self.pulls[step.key]
        match step.kind:
            case StepKind.LABEL | StepKind.LABEL_AGAIN:
                pull.label(LABEL, by=step.by)
            case StepKind.CLOSE:
                pull.close(by=step.by)
            case StepKind.PUSH:
                pull.push(change.push, "Smaller cups", by=step.by)
            case StepKind.FIX:
                pull.push(change.fix, "Test without the constant", by=step.by)
        self.latest[pull.number] = f"{step.by} {step.kind} it"

    def _open(self, change: Change, author: str) -> PullRequestHandle:
        repository = self.environment.repository
        start = self.environment.past[-1 - change.behind]
        branch = f"{author}/{change.key}"
        repository.push_commit(branch, repository.commit(change.files, start, change.title, by=author), by=author)
        return repository.open_pull_request(change.title, head=branch, base=BASE, by=author)
