"""A witness of trains: each tip of the base against what CI tested, each landing against its consent."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from github_emulator import GitHub
from tests.acceptance.project import total_at_most_ten
from tests.acceptance.train_stage import CHECK
from tests.acceptance.world import LABEL, REPOSITORY

_APP = "imq[bot]"
BASES = ("main", "release")
"""The base branches that are watched."""


@dataclass
class TrainWitness:
    """What people agreed to, and what came of it; `complaints` tell each broken promise."""

    github: GitHub
    agreed: dict[int, str] = field(default_factory=dict)
    """Each pull request whose label holds -> the head that it was set on."""
    by_hand: set[str] = field(default_factory=set)
    """Commits that people pushed to the base, or merged into it."""
    late: timedelta = timedelta(0)
    """How old a state reads show."""
    unheard: bool = False
    """Whether webhooks get lost or come late: then reads alone tell IMQ that consent is gone."""
    landed: dict[int, str] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    _withdrawn: dict[int, tuple[datetime, str]] = field(default_factory=dict)
    _drafts: dict[int, datetime] = field(default_factory=dict)
    _acting: bool = False

    def __post_init__(self) -> None:
        self.github.webhooks.observers.append(self._see)

    @property
    def report(self) -> str:
        """The complaints, and the log."""
        return "\n".join((*self.complaints, *self.log))

    def agree(self, pull: Any) -> None:
        """Somebody sets the label on the present head."""
        if LABEL not in pull.labels and pull.state == "open":
            self.agreed[pull.number] = pull.head_sha
            pull.label(LABEL, by="mona")

    def withdraw(self, pull: Any) -> None:
        """Something happened by which the pull request may not land any more."""
        head = self.agreed.pop(pull.number, None)
        if head is not None:
            self._withdrawn[pull.number] = (self.github.clock.now(), head)

    def make_draft(self, pull: Any) -> None:
        """Somebody makes it a draft: it may wait with its label, and not land."""
        pull.convert_to_draft(by="mona")
        self._drafts[pull.number] = self.github.clock.now()

    @contextmanager
    def acting(self) -> Iterator[None]:
        """Meanwhile people act: no test and no consent is needed."""
        self._acting = True
        try:
            yield
        finally:
            self._acting = False

    def note(self, what: str) -> None:
        """Add a line to the log that a failing test shows."""
        self.log.append(f"{self.github.clock.now():%H:%M:%S.%f} {what}")

    def complain(self, what: str) -> None:
        """A promise was broken."""
        self.complaints.append(what)
        self.note(f"BROKEN {what}")

    def _see(self, event: str, payload: Any) -> None:
        base = str(payload.get("ref", "")).removeprefix("refs/heads/")
        if event == "push" and base in BASES:
            self._judge_tip(base, payload["before"], payload["after"])
        elif event == "pull_request" and payload["action"] == "closed" and payload["pull_request"]["merged"]:
            self._judge_landing(payload["number"])

    def _judge_tip(self, base: str, before: str, tip: str) -> None:
        """P1: the base is green, and its tree is one that CI tested, or a prefix of one, as squashed members are."""
        repository = self.github.repository(REPOSITORY)
        self.note(f"{base} is at {tip[:7]} {repository.record.git.must(tip).title}")
        if self._acting:
            self.by_hand.add(tip)
        if tip in self.by_hand:
            return
        if not total_at_most_ten(repository.files(tip)):
            self.complain(f"P1: {base} is red at {tip[:7]}")
        if repository.tree(tip) not in self._tested_trees():
            self.complain(f"P1: nothing tested the tree of {tip[:7]}")
        if not repository.is_ancestor(before, tip):
            self.complain(f"P1: {tip[:7]} does not extend {before[:7]}")
        for number, head in self._brought(before, tip):
            self._judge_consent(number, head)

    def _tested_trees(self) -> set[str]:
        """The trees of commits whose check passed, and of the commits below them that IMQ made."""
        record = self.github.repository(REPOSITORY).record
        git, found = record.git, set[str]()
        for sha, runs in record.runs_by_sha.items():
            if not any(run.name == CHECK and run.conclusion == "success" for run in runs):
                continue
            commit = git.must(sha)
            found.add(commit.tree)
            while commit.author.name == _APP and commit.parents:
                commit = git.must(commit.parents[0])
                found.add(commit.tree)
        return found

    def _brought(self, before: str, tip: str) -> list[tuple[int, str]]:
        """The open pull requests whose heads a push brings into the base."""
        git = self.github.repository(REPOSITORY).record.git
        new = {commit.sha for commit in git.log(tip, before)}
        pulls = self.github.repository(REPOSITORY).record.pulls.values()
        return [(each.number, each.head_sha) for each in pulls if each.head_sha in new and each.author.login != _APP]

    def _judge_landing(self, number: int) -> None:
        pull = self.github.pull(REPOSITORY, number)
        if pull.record.author.login == _APP:
            return
        self.note(f"#{number} is merged as {pull.merge_sha}")
        if self._acting:
            self.landed[number] = pull.head_sha
        if number not in self.landed:
            # Squashed: no push brought its head.
            self._judge_consent(number, pull.head_sha)

    def _judge_consent(self, number: int, head: str) -> None:
        """P4: the label is on, and what lands is the head it was set on, or IMQ's own update of that; and once (P2)."""
        git, agreed = self.github.repository(REPOSITORY).record.git, self.agreed.get(number)
        self.landed[number] = head
        while head != agreed and git.must(head).author.name == _APP:
            head = git.must(head).parents[0]
        if head != agreed and not self._just_withdrawn(number, head):
            self.complain(f"P4: #{number} landed as {head[:7]}; agreed was {agreed and agreed[:7]}")

        if self.github.pull(REPOSITORY, number).record.draft and not self._is_unknown(self._drafts[number]):
            self.complain(f"P4: #{number} landed as a draft")

    def _just_withdrawn(self, number: int, head: str) -> bool:
        at, agreed = self._withdrawn.get(number, (self.github.clock.now(), ""))
        return head == agreed and self._is_unknown(at)

    def _is_unknown(self, since: datetime) -> bool:
        """Whether IMQ cannot know yet what happened then: reads are older, and a webhook may be lost."""
        return self.unheard and self.github.clock.now() - since <= self.late
