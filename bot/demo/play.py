"""Perform the steps of a run, each at its time."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from bot.demo.changes import Change
from bot.demo.sight import PullSight, QueueSight, see_pull, see_queue
from bot.demo.stage import BASE, LABEL, Stage
from bot.demo.story import Deed, Step, Story
from queue_engine.domain.notice import NoticeKind
from sandbox.facade.pull_request_handle import PullRequestHandle


@dataclass(slots=True)
class Play:
    """What has been done so far, and what was seen last. `latest` is the newest event of each pull request."""

    stage: Stage
    story: Story
    pulls: dict[str, PullRequestHandle] = field(default_factory=dict)
    latest: dict[int, str] = field(default_factory=dict)
    queue: QueueSight = field(default_factory=QueueSight)
    _steps: list[Step] = field(default_factory=list)
    _last_event: int = 0
    _began: datetime = field(init=False)

    def __post_init__(self) -> None:
        self._steps = list(self.story.steps)
        self._began = self.stage.github.clock.now()

    @property
    def elapsed(self) -> timedelta:
        """The sandbox's time since the story began."""
        return self.stage.github.clock.now() - self._began

    @property
    def over(self) -> bool:
        """Whether the story is told, and IMQ has nothing left to do or to say about it."""
        settled = all(pull.settled for pull in self.seen())
        return not self._steps and settled and not self.queue.places and not self.queue.unsent

    def seen(self) -> list[PullSight]:
        """Every pull request that was opened, as people see it."""
        bot = self.stage.app.bot.login
        return [see_pull(pull, bot=bot, label=LABEL) for pull in self.pulls.values()]

    def numbers(self) -> Mapping[int, Change]:
        """Which change each number is."""
        changes = {change.key: change for change in self.story.changes}
        return {pull.number: changes[key] for key, pull in self.pulls.items()}

    def go_on(self) -> None:
        """Do the steps whose time and moment have come, and look at what the bot did meanwhile."""
        self.stage.bot.check()
        self.queue = see_queue(self.stage.database, after=self._last_event)
        for event in self.queue.events:
            self.latest[event.number] = event.text
            self._last_event = event.id
        # A step whose moment has not come holds up the later ones of its own pull request only.
        waiting: set[str] = set()
        for step in tuple(self._steps):
            if step.after <= self.elapsed and step.key not in waiting and self._has_come(step):
                self._do(step)
                self._steps.remove(step)
            else:
                waiting.add(step.key)

    def _has_come(self, step: Step) -> bool:
        match step.deed:
            case Deed.CLOSE | Deed.PUSH:
                return self.pulls[step.key].number in self.queue.places
            case Deed.LABEL_AGAIN:
                pull = see_pull(self.pulls[step.key], bot=self.stage.app.bot.login, label=LABEL)
                return pull.settled and pull.told is NoticeKind.CANCELLED
            case _:
                return True

    def _do(self, step: Step) -> None:
        change = next(change for change in self.story.changes if change.key == step.key)
        if step.deed is Deed.OPEN:
            self.pulls[step.key] = self._open(change, step.by)
        pull = self.pulls[step.key]
        match step.deed:
            case Deed.LABEL | Deed.LABEL_AGAIN:
                pull.label(LABEL, by=step.by)
            case Deed.CLOSE:
                pull.close(by=step.by)
            case Deed.PUSH:
                pull.push(change.push, "Smaller cups", by=step.by)
        self.latest[pull.number] = f"{step.by} {step.deed} it"

    def _open(self, change: Change, author: str) -> PullRequestHandle:
        repository = self.stage.repository
        start = self.stage.past[-1 - change.behind]
        branch = f"{author}/{change.key}"
        repository.push_commit(branch, repository.commit(change.files, start, change.title, by=author), by=author)
        return repository.open_pull_request(change.title, head=branch, base=BASE, by=author)
