"""People who act at random on one repository while its queue works and GitHub's reads lag."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Any

from github_emulator import READ_KINDS, Fault, FaultKind
from tests.acceptance.project import total_at_most_ten
from tests.acceptance.witness import Witness
from tests.acceptance.world import CI_TIME, LABEL, World

LONGEST_LAG = timedelta(seconds=5)
OF_BASES = {"compare", "graphql_branches"}
"""The reads that tell whether a base has moved."""


@dataclass
class Crowd:
    """Who acts, at what the seed says; each act is one line of the witness's log."""

    world: World
    chance: Random
    witness: Witness
    pulls: list[Any] = field(default_factory=list)
    acts: int = 0

    def lag_at_random(self) -> None:
        """Give each kind of read a lag of its own: none, always the same, or another one for each request.

        Reads of bases always lag.
        """
        lag = self.world.server.lag
        for kind in READ_KINDS:
            most = LONGEST_LAG * self.chance.choice([0.1, 0.4, 1] if kind in OF_BASES else [0, 0.1, 0.4, 1])
            least = most if self.chance.random() < 0.5 else timedelta(0)
            lag.between(least, most, kind, seed=self.chance.randrange(10**6))
            self.witness.log_line(f"{kind} lags {least} to {most}")

    def open(self, count: int) -> None:
        """Open pull requests; some can land alone only, as their numbers add up to more than ten."""
        for number in range(count):
            size = self.chance.choice([0, 0, 4, 7])
            name = f"add-{number}"
            files = {f"{name}.txt": f"{size}\n"} if size else None
            self.pulls.append(self.world.open(name, files=files))

    async def act(self) -> None:
        """One of them does something, and some time passes."""
        self.acts += 1
        pull = self.chance.choice(self.pulls)
        likely = (
            [self._label] * 4
            + [self._label_as_base_moves] * 4
            + [self._push, self._unlabel, self._close_or_reopen, self._draft]
        )
        elsewhere: list[Callable[[Any], Any]] = [self._push_to_base] * 2 + [self._kill, self._lose_an_answer]
        act = self.chance.choice(likely + elsewhere)
        self.witness.log_line(f"#{pull.number} {act.__name__.strip('_')}")
        if not pull.merged or act in elsewhere:
            await act(pull)
        pause = self.chance.choice([0.0, 0.4, 1, 3, 6, 30, 100, 200])
        await self.world.pass_time(timedelta(seconds=pause * self.chance.uniform(0.5, 1)))

    async def _label(self, pull: Any) -> None:
        if pull.state == "open":
            self.witness.agree(pull)

    async def _label_as_base_moves(self, pull: Any) -> None:
        """The base moves in the instant in which a pull request is labelled that is up to date and green."""
        if pull.state != "open":
            return
        await self._unlabel(pull)
        if not self.world.repository.is_ancestor(self.world.repository.sha("main"), pull.head_sha):
            self.witness.withdraw(pull)
            pull.update_branch(by="mona")
        await self.world.pass_time(CI_TIME + timedelta(seconds=1))
        await self._push_to_base(pull)
        await self._label(pull)

    async def _unlabel(self, pull: Any) -> None:
        if LABEL in pull.labels:
            self.witness.withdraw(pull)
            pull.unlabel(LABEL, by="mona")

    async def _push(self, pull: Any) -> None:
        self.witness.withdraw(pull)
        push = self.chance.choice([pull.push, pull.force_push])
        push({f"push-{self.acts}.py": "pushed\n"}, by=self.chance.choice(["mona", "hubot"]))

    async def _close_or_reopen(self, pull: Any) -> None:
        self.witness.withdraw(pull)
        if pull.state == "open":
            pull.close(by="mona")
        else:
            pull.reopen(by="mona")

    async def _draft(self, pull: Any) -> None:
        """A draft does not land. Ready again with its label and its head, it may: its consent was not withdrawn."""
        pull.convert_to_draft(by="mona")
        await self.world.pass_time(timedelta(seconds=self.chance.uniform(0, 6)))
        pull.ready_for_review(by="mona")

    async def _push_to_base(self, pull: Any) -> None:
        self.world.repository.push("main", {f"base-{self.acts}.py": "moved\n"}, "Move the base", by="rhea")

    async def _kill(self, pull: Any) -> None:
        """Let the lag pass: IMQ cannot know what happened while it was dead until GitHub shows it."""
        await self.world.kill()
        if self.chance.random() < 0.5:
            await self.chance.choice([self._label, self._push, self._unlabel, self._push_to_base])(
                self.chance.choice([one for one in self.pulls if not one.merged] or [pull])
            )
            await self.world.github.advance(LONGEST_LAG)
        await self.world.restart()

    async def _lose_an_answer(self, pull: Any) -> None:
        route = self.chance.choice(["merge", "update-branch"])
        kinds: list[FaultKind] = ["fail", "apply_then_fail", "apply_then_reset"]
        kind = self.chance.choice(kinds)
        route = f"/repos/{{owner}}/{{repo}}/pulls/{{number}}/{route}"
        self.world.server.faults.add(Fault(kind=kind, method="PUT", route=route, status=502))

    def green_on_base(self, pull: Any) -> bool:
        """Whether the base would be green with the pull request on top."""
        git = self.world.repository.record.git
        tree = git.merge_trees(self.world.repository.sha("main"), pull.head_sha)
        return tree is not None and total_at_most_ten(git.files(tree))

    async def finish(self) -> None:
        """Everybody agrees to all that is open: whatever can land, lands."""
        for pull in self.pulls:
            if pull.merged:
                continue
            if pull.state == "closed":
                await self._close_or_reopen(pull)
            await self.world.settle()
            await self._unlabel(pull)
            await self.world.pass_time(timedelta(seconds=10))
            await self._label(pull)
