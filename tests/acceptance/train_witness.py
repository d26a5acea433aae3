"""A witness of trains: each tip of the base against what CI tested, each landing against its consent."""

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from github_emulator import GitHub
from tests.acceptance.project import total_at_most_ten
from tests.acceptance.train_stage import CHECK
from tests.acceptance.world import LABEL, REPOSITORY

_APP = "imq[bot]"
BASES = ("main", "release")
"""The base branches that are watched."""
_REVERTED = re.compile(r"<!-- imq revert (\d+) -->")
_NEVER = datetime.min.replace(tzinfo=UTC)


def _is_draft_of_train(record: Any) -> bool:
    return bool(record.author.login == _APP and record.head_branch.startswith("imq/"))


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
    reverts_itself: bool = False
    """Whether a configuration has allowed IMQ to open reverts that no one asked for."""
    landed: dict[int, str] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    _withdrawn: dict[int, tuple[datetime, str]] = field(default_factory=dict)
    _drafts: dict[int, datetime] = field(default_factory=dict)
    _agreed_at: dict[int, datetime] = field(default_factory=dict)
    _before: dict[int, tuple[datetime, frozenset[int]]] = field(default_factory=dict)
    """What each description says lands before its pull request, and since when."""
    _together: dict[int, tuple[datetime, frozenset[int]]] = field(default_factory=dict)
    """What it says lands in one set with it, and since when."""
    _to_revert: set[int] = field(default_factory=set)
    _made: dict[int, tuple[int | None, str]] = field(default_factory=dict)
    """The pull requests that IMQ opened: which one each reverts, and the commit that GitHub made for it."""
    _acting: bool = False

    def __post_init__(self) -> None:
        self._repository = self.github.repository(REPOSITORY)  # Its name may change.
        self.github.webhooks.observers.append(self._see)

    @property
    def report(self) -> str:
        """The complaints, and the log."""
        return "\n".join((*self.complaints, *self.log))

    def agree(self, pull: Any) -> None:
        """Somebody sets the label on the present head."""
        if LABEL not in pull.labels and pull.state == "open":
            self._agree(pull.number, pull.head_sha)
            pull.label(LABEL, by="mona")

    def agree_by_comment(self, pull: Any, words: str, *, by: str) -> None:
        """Somebody asks to queue the present head; if IMQ refuses, the head that it was queued with counts no more."""
        self.note(f"#{pull.number} {words} by {by}")
        self._agree(pull.number, pull.head_sha)
        pull.comment(words, by=by)

    def ask_for_revert(self, pull: Any) -> None:
        """Somebody asks to revert what landed: that consents to the commit that GitHub makes, or has made."""
        self._to_revert.add(pull.number)
        for number, (reverted, head) in self._made.items():
            if reverted == pull.number and not self._repository.pull(number).merged:
                self._agree(number, head)

    def describe(self, pull: Any, *, before: Sequence[int] = (), together: Sequence[int] = ()) -> None:
        """The author names other pull requests in the description."""
        names = {"Depends-On": before, "Lands-With": together}
        body = "\n".join(f"{key}: {' '.join(f'#{one}' for one in each)}" for key, each in names.items() if each)
        self.note(f"#{pull.number} says {body!r}")
        pull.edit_body(body, by="mona")
        now = self.github.clock.now()
        self._before[pull.number] = now, frozenset(before)
        self._together[pull.number] = now, frozenset(together)

    def is_set_ready(self, number: int) -> bool:
        """Whether nothing keeps a pull request from landing with its set, as far as people have to do something."""
        members = {number, *self._names(self._together, number)}
        pulls = {each: self._repository.pull(each) for each in members}
        return all(
            pull.merged
            or (
                members - {each} <= self._names(self._together, each)
                and LABEL in pull.labels
                and not pull.record.draft
                and self._is_green(pull)
            )
            for each, pull in pulls.items()
        )

    def _is_green(self, pull: Any) -> bool:
        return any(run.name == CHECK and run.conclusion == "success" for run in pull.check_runs)

    def _agree(self, number: int, head: str) -> None:
        self.agreed[number] = head
        self._agreed_at[number] = self.github.clock.now()

    def _names(self, named: dict[int, tuple[datetime, frozenset[int]]], number: int) -> frozenset[int]:
        return named[number][1] if number in named else frozenset()

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
            if payload["sender"]["login"] != _APP:
                self.by_hand.add(payload["after"])
            self._judge_tip(base, payload["before"], payload["after"])
        elif event == "pull_request" and payload["action"] == "closed" and payload["pull_request"]["merged"]:
            self._judge_landing(payload["number"], payload["pull_request"]["merged_by"])
        elif event == "pull_request" and payload["action"] == "opened":
            self._see_opened(payload["pull_request"])

    def _see_opened(self, shown: Any) -> None:
        """IMQ has opened a revert, for somebody who asked for it, or one that it was allowed to open."""
        head, number = shown["head"], shown["number"]
        if shown["user"]["login"] != _APP or head["ref"].startswith("imq/"):
            return
        marked = _REVERTED.search(shown["body"] or "")
        reverted = None if marked is None else int(marked[1])
        self._made[number] = reverted, head["sha"]
        self.note(f"#{number} reverts #{reverted}: {shown['title']}")
        relands = shown["title"].startswith("Reland")
        if reverted in self._to_revert and not relands:
            self._to_revert.discard(reverted)
            self._agree(number, head["sha"])
        elif self.reverts_itself and not relands:
            self._agree(number, head["sha"])

    def _judge_tip(self, base: str, before: str, tip: str) -> None:
        """P1: the base is green, and its tree is one that CI tested, or a prefix of one, as squashed members are."""
        repository = self._repository
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
        brought = self._brought(before, tip)
        for number, head in brought:
            self._judge_consent(number, head, beside={each for each, _ in brought})

    def _tested_trees(self) -> set[str]:
        """The trees of commits whose check passed, and of the commits below them that IMQ made."""
        record = self._repository.record
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
        git = self._repository.record.git
        new = {commit.sha for commit in git.log(tip, before)}
        pulls = self._repository.record.pulls.values()
        return [(each.number, each.head_sha) for each in pulls if each.head_sha in new and not _is_draft_of_train(each)]

    def _judge_landing(self, number: int, by: Any) -> None:
        pull = self._repository.pull(number)
        if _is_draft_of_train(pull.record):
            return
        self.note(f"#{number} is merged as {pull.merge_sha}")
        if self._acting or (by is not None and by["login"] != _APP):
            self.landed[number] = pull.head_sha
        if number not in self.landed:
            # Squashed: no push brought its head.
            self._judge_consent(number, pull.head_sha)

    def _judge_consent(self, number: int, head: str, beside: Collection[int] = ()) -> None:
        """P4: the label is on, and what lands is the head it was set on, or IMQ's own update of that; and once (P2)."""
        git, agreed = self._repository.record.git, self.agreed.get(number)
        self.landed[number] = head
        while head != agreed and git.must(head).author.name == _APP:
            head = git.must(head).parents[0]
        if head != agreed and not self._just_withdrawn(number, head):
            self.complain(f"P4: #{number} landed as {head[:7]}; agreed was {agreed and agreed[:7]}")

        if self._repository.pull(number).record.draft and not self._is_unknown(self._drafts[number]):
            self.complain(f"P4: #{number} landed as a draft")
        self._judge_order(number, beside)

    def _judge_order(self, number: int, beside: Collection[int]) -> None:
        """P3: it lands after what its description names, and in its place of a set all of which was agreed to."""
        at = self._agreed_at.get(number)
        if at is None:
            return
        named = [*self._of_consent(self._before, number, at)]
        for each in named:
            if each not in beside and not self._repository.pull(each).merged:
                self.complain(f"P3: #{number} landed before #{each}, on which it depends")
        for each in self._of_consent(self._together, number, at):
            other = self._repository.pull(each)
            if number not in self._of_consent(self._together, each, at) or other.merged:
                continue
            if f"#{each}" < f"#{number}":
                self.complain(f"P3: #{number} landed before #{each} of its set")
            if each not in self.agreed and self._withdrawn.get(each, (_NEVER, ""))[0] < at:
                self.complain(f"P4: #{number} landed, and no one has agreed to #{each} of its set")

    def _of_consent(
        self, named: dict[int, tuple[datetime, frozenset[int]]], number: int, at: datetime
    ) -> frozenset[int]:
        """The names that a description had, for every reader, when somebody agreed; none if it has changed since."""
        since, names = named.get(number, (_NEVER, frozenset()))
        return names if since < at - self.late else frozenset()

    def _just_withdrawn(self, number: int, head: str) -> bool:
        at, agreed = self._withdrawn.get(number, (self.github.clock.now(), ""))
        return head == agreed and self._is_unknown(at)

    def _is_unknown(self, since: datetime) -> bool:
        """Whether IMQ cannot know yet what happened then: reads are older, and a webhook may be lost."""
        return self.unheard and self.github.clock.now() - since <= self.late
