"""A witness of what lands on an emulator's GitHub, who holds it to P1 and P4 by GitHub's present state.

Whatever IMQ is shown by reads that lag, the witness sees each push and each merge at the instant it happens.
"""

from dataclasses import dataclass, field
from typing import Any

from github_emulator import GitHub
from tests.acceptance.project import total_at_most_ten
from tests.acceptance.world import LABEL

_APP = "imq[bot]"
Place = tuple[str, int]
"""A repository's full name and a pull request's number."""


@dataclass
class Witness:
    """What people agreed to, and what came of it; `complaints` tell each broken promise."""

    github: GitHub
    bases: frozenset[str] = frozenset({"main"})
    agreed: dict[Place, str] = field(default_factory=dict)
    """Each pull request whose label holds -> the head that it was set on."""
    landed: list[Place] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.github.webhooks.observers.append(self._see)

    def agree(self, pull: Any) -> None:
        """Somebody sets the label on the present head."""
        if LABEL not in pull.labels:
            pull.label(LABEL, by="mona")
            self.agreed[_place(pull)] = pull.head_sha

    def withdraw(self, pull: Any) -> None:
        """Something happened by which the pull request may not land any more."""
        self.agreed.pop(_place(pull), None)

    def log_line(self, what: str) -> None:
        """Add a line to the log that a failing test shows."""
        self.log.append(f"{self.github.clock.now():%H:%M:%S.%f} {what}")

    def complain(self, what: str) -> None:
        """A promise was broken."""
        self.complaints.append(what)
        self.log_line(f"BROKEN {what}")

    @property
    def report(self) -> str:
        """The complaints, and the log."""
        return "\n".join((*self.complaints, *self.log))

    def _see(self, event: str, payload: Any) -> None:
        name = payload.get("repository", {}).get("full_name", "")
        if event == "push" and (branch := payload["ref"].removeprefix("refs/heads/")) in self.bases:
            self._judge_base(name, branch, payload["after"])
        elif event == "pull_request" and payload["action"] == "closed" and payload["pull_request"]["merged"]:
            self._judge_landing((name, payload["number"]))

    def _judge_base(self, name: str, branch: str, tip: str) -> None:
        """P1: the base rests on green trees only, and each merge commit holds exactly the tree that was tested."""
        repository = self.github.repository(name)
        commit = repository.record.git.must(tip)
        self.log_line(f"{name} {branch} is at {tip[:7]} {commit.title}")
        if not total_at_most_ten(repository.files(tip)):
            self.complain(f"P1: {name} {branch} is red at {tip[:7]}")
        if len(commit.parents) < 2:
            return
        base, head = commit.parents
        if repository.tree(tip) != repository.tree(head) or not repository.is_ancestor(base, head):
            self.complain(f"P1: {tip[:7]} is not the tree of {head[:7]}, which was tested")
        runs = repository.record.runs_by_sha.get(head, [])
        if not any(run.name == "ci/test" and run.conclusion == "success" for run in runs):
            self.complain(f"P1: {head[:7]} was not green")

    def _judge_landing(self, place: Place) -> None:
        """P4: the label is on, and what lands is the head it was set on, or IMQ's own updates of that."""
        pull = self.github.pull(*place)
        self.landed.append(place)
        self.log_line(f"{place[0]}#{place[1]} lands as {pull.head_sha[:7]}")
        if LABEL not in pull.labels:
            self.complain(f"P4: {place} landed without its label")
        if pull.record.draft:
            self.complain(f"P4: {place} landed as a draft")
        git, head, agreed = pull.record.repository.git, pull.head_sha, self.agreed.get(place)
        while head != agreed and git.must(head).author.name == _APP:
            head = git.must(head).parents[0]
        if head != agreed:
            self.complain(f"P4: {place} landed as {pull.head_sha[:7]}; agreed was {agreed and agreed[:7]}")


def _place(pull: Any) -> Place:
    return pull.record.repository.full_name, pull.number
