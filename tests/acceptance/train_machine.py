"""A state machine of Hypothesis over trains: what people do to a queue, at every step."""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from github_emulator import ApiError, RecordedCall
from tests.acceptance.project import total_at_most_ten
from tests.acceptance.train_machine_base import MEDDLED, MOST_PULLS, SIZES
from tests.acceptance.train_machine_failures import STEPS
from tests.acceptance.train_machine_features import TrainMachineFeatures
from tests.acceptance.train_stage import configure_at
from tests.acceptance.train_witness import BASES
from tests.acceptance.world import LABEL

_BROKEN = "broken.txt"
_MERGE = "PUT /repos/{owner}/{repo}/pulls/{number}/merge"
_OF_PASS = (
    *STEPS[:7],
    "PUT /repos/{owner}/{repo}/pulls/{number}/update-branch",
    "GET /repos/{owner}/{repo}/commits/{ref}/check-runs",
    "GET /repos/{owner}/{repo}/branches/{branch}",
)
"""Requests that passes send, and no job: the webhook of the act is a job, which must not wait for itself."""
_BETWEEN = (
    *("unlabel", "/unqueue", "retarget", "close", "draft", "push", "/pause", "/freeze until 20m", "trains off"),
    *("/queue alone", "/try queue", "names another"),
)


class TrainMachine(TrainMachineFeatures):
    """P1 to P7 with trains, whatever people and failures do."""

    @rule(sizes=st.lists(st.sampled_from(SIZES), min_size=1, max_size=4), pause=st.integers(0, 400))
    def queue(self, sizes: list[int], pause: int) -> None:
        """People open pull requests, and queue them."""
        for size in sizes:
            if len(self.pulls) < MOST_PULLS:
                self.pulls.append(self.open(size))
                self.witness.agree(self.pulls[-1])
        self.let_pass(pause)

    @rule(data=st.data(), pause=st.integers(0, 200))
    def withdraw_or_agree(self, data: st.DataObject, pause: int) -> None:
        """Somebody takes the label off, or puts it on."""
        pull = self.draw(data)
        if pull is not None:
            self.witness.note(f"#{pull.number} label changes, on: {LABEL in pull.labels}")
            if LABEL in pull.labels:
                self.witness.withdraw(pull)
                pull.unlabel(LABEL, by="mona")
            else:
                self.witness.agree(pull)
            self.let_pass(pause)

    @rule(data=st.data(), forced=st.booleans(), pause=st.integers(0, 200))
    def push_to_member(self, data: st.DataObject, forced: bool, pause: int) -> None:
        """Somebody pushes to a pull request, queued or not."""
        pull = self.draw(data)
        if pull is not None:
            self.witness.note(f"#{pull.number} push")
            self.witness.withdraw(pull)
            waits = pull.record.draft or self.waits_for_its_check(pull)
            push = pull.force_push if forced else pull.push
            head = push({f"push-{self.act()}.py": "pushed\n"}, by="hubot")
            if waits and LABEL in pull.labels:
                # It waits outside the queue: a push by a person who may queue binds the new head.
                self.witness.agreed[pull.number] = head
            self.let_pass(pause)

    @rule(data=st.data(), pause=st.integers(0, 200))
    def close_or_reopen(self, data: st.DataObject, pause: int) -> None:
        """Somebody closes a pull request, or opens it again."""
        pull = self.draw(data, state="any")
        if pull is not None:
            self.witness.note(f"#{pull.number} close or reopen")
            self.witness.withdraw(pull)
            if pull.state == "open":
                pull.close(by="mona")
            else:
                pull.reopen(by="mona")
            self.let_pass(pause)

    @rule(data=st.data(), pause=st.integers(0, 200))
    def make_draft_or_ready(self, data: st.DataObject, pause: int) -> None:
        """Somebody makes a pull request a draft, or ready for review again."""
        pull = self.draw(data)
        if pull is not None:
            self.witness.note(f"#{pull.number} draft: {not pull.record.draft}")
            if pull.record.draft:
                pull.ready_for_review(by="mona")
            else:
                self.witness.make_draft(pull)
            self.let_pass(pause)

    @rule(data=st.data(), act=st.sampled_from(_BETWEEN), pause=st.integers(10, 600))
    def act_between_merges(self, data: st.DataObject, act: str, pause: int) -> None:
        """Somebody acts between two merges of one landing, and the webhook arrives before the second one."""
        self._act_after(self.draw(data), act, lambda call: call.template == _MERGE, pause)

    @rule(data=st.data(), act=st.sampled_from(_BETWEEN), skipped=st.integers(0, 12), pause=st.integers(10, 600))
    def act_between_requests(self, data: st.DataObject, act: str, skipped: int, pause: int) -> None:
        """Somebody acts between any two requests of a pass, and the webhook arrives before the second one."""
        left = iter(range(skipped))
        self._act_after(
            self.draw(data), act, lambda call: call.template in _OF_PASS and next(left, None) is None, pause
        )

    def _act_after(self, pull: Any, act: str, hits: Callable[[RecordedCall], bool], pause: int) -> None:
        """Act on a queued pull request once such a request was answered while time passes."""
        if pull is None:
            return

        async def hook(exchange: RecordedCall) -> None:
            if exchange.phase != "after" or self._passing is None or not hits(exchange) or pull.merged:
                return
            if await self.world.entry(pull) is not None:
                self.world.server.on_request = None
                self.witness.note(f"#{pull.number} {act} after {exchange.template}")
                self._act(pull, act)
                await self.world.github.schedule.run_due()
                await self.world.bot.worker.run_due()

        self.world.server.on_request = hook
        self.let_pass(pause)
        self.world.server.on_request = None
        if pull.record.base_branch != self.homes[pull.number] and pull.state == "open":
            pull.edit_base(self.homes[pull.number], by="mona")

    def _act(self, pull: Any, act: str) -> None:
        """Act on a pull request, or on the queue."""
        if act == "draft":
            if not pull.record.draft:
                self.witness.make_draft(pull)
            return
        if act in ("/pause", "/freeze until 20m", "/try queue"):
            pull.comment(act, by="rhea")
            return
        if act == "/queue alone":
            self.witness.agree_by_comment(pull, act, by="mona")
            return
        if act == "names another":
            self.witness.describe(pull, before=[each.number for each in self.pulls if each is not pull][:1])
            return
        if act == "trains off":
            self.push_to_main(configure_at("off", method=self.ground.method, more=self.more), "Configure")
            return
        self.witness.withdraw(pull)
        match act:
            case "unlabel" if LABEL in pull.labels:
                pull.unlabel(LABEL, by="mona")
            case "retarget":
                pull.edit_base(next(each for each in BASES if each != pull.record.base_branch), by="mona")
            case "close":
                pull.close(by="mona")
            case "push":
                pull.push({f"push-{self.act()}.py": "pushed\n"}, by="hubot")
            case _:
                pull.comment("/unqueue", by="mona")

    @rule(data=st.data(), pause=st.integers(0, 200))
    def give_priority(self, data: st.DataObject, pause: int) -> None:
        """An administrator makes a pull request a hotfix, or no longer one."""
        pull = self.draw(data)
        if pull is not None:
            self.witness.note(f"#{pull.number} hotfix: {'hotfix' not in pull.labels}")
            if "hotfix" in pull.labels:
                pull.unlabel("hotfix", by="rhea")
            else:
                pull.label("hotfix", by="rhea")
            self.let_pass(pause)

    @rule(data=st.data(), method=st.sampled_from(["merge", "squash"]), pause=st.integers(0, 200))
    def merge_by_hand(self, data: st.DataObject, method: str, pause: int) -> None:
        """An administrator merges a pull request past the queue."""
        pull = self.draw(data)
        if pull is not None:
            self.witness.note(f"#{pull.number} {method} by hand")
            with self.witness.acting():
                try:
                    pull.merge(method, by="rhea")
                except ApiError as refusal:
                    self.witness.note(f"refused: {refusal}")
            self.let_pass(pause)

    @rule(data=st.data(), pause=st.integers(0, 200))
    def update_branch(self, data: st.DataObject, pause: int) -> None:
        """Somebody presses "Update branch", which moves the head."""
        pull = self.draw(data)
        if pull is not None:
            self.witness.note(f"#{pull.number} update by hand")
            # While IMQ asks for the same update, nothing tells the two apart: its parents prove it (P4).
            alike = self.run(self.world.status(pull)) == "updating" and pull.number in self.witness.agreed
            try:
                pull.update_branch(by="mona")
                self.witness.withdraw(pull)
                if alike:
                    self.witness.agreed[pull.number] = pull.head_sha
            except ApiError as refusal:
                self.witness.note(f"refused: {refusal}")
            self.let_pass(pause)

    @rule(pause=st.integers(0, 300))
    def push_to_base(self, pause: int) -> None:
        """An administrator pushes to the base."""
        self.witness.note("push to main")
        self.push_to_main({f"base-{self.act()}.py": "moved\n"}, "Move the base")
        self.let_pass(pause)

    @rule(pause=st.integers(0, 600))
    def break_or_repair_base(self, pause: int) -> None:
        """An administrator pushes what fails, or takes it back."""
        self._break_or_repair()
        self.let_pass(pause)

    def _break_or_repair(self) -> None:
        broken = _BROKEN in self.world.repository.files()
        self.witness.note(f"main is {'mended' if broken else 'broken'}")
        self.push_to_main({_BROKEN: None if broken else "11\n"}, "Mend" if broken else "Break")

    @rule(words=st.sampled_from(["/pause", "/resume", "/freeze until 20m"]), pause=st.integers(0, 600))
    def control(self, words: str, pause: int) -> None:
        """An administrator pauses, freezes or resumes the queue."""
        self._say(words)
        self.let_pass(pause)

    def _say(self, words: str) -> None:
        for base in BASES:
            pull = next((each for each in self.pulls if (each.state, each.record.base_branch) == ("open", base)), None)
            if pull is not None:
                self.witness.note(f"{words} at {base}")
                pull.comment(words, by="rhea")

    @rule(
        runs=st.integers(1, 3),
        most=st.sampled_from([1, 2, 32]),
        candidates=st.sampled_from(["auto", "push", "pull_request", "off"]),
        method=st.sampled_from(["merge", "squash"]),
        pause=st.integers(0, 300),
    )
    def configure(self, runs: int, most: int, candidates: str, method: str, pause: int) -> None:
        """Somebody merges another configuration."""
        trains = "off" if candidates == "off" else f"{{candidates: {candidates}, runs: {runs}, max_size: {most}}}"
        self.witness.note(f"trains: {trains}, {method}")
        self.most_runs = max(runs, self.most_runs)
        self.push_to_main(configure_at(trains, method=method, more=self.more), "Configure")
        self.let_pass(pause)

    @rule(data=st.data(), deletes=st.booleans(), pause=st.integers(0, 200))
    def meddle_with_candidate(self, data: st.DataObject, deletes: bool, pause: int) -> None:
        """Somebody pushes to a branch of a train, or deletes it."""
        assert self.trains is not None
        branches = self.trains.branches()
        if branches:
            branch = data.draw(st.sampled_from(branches))
            self.witness.note(f"{branch} is {'deleted' if deletes else 'pushed to'}")
            if deletes:
                self.world.repository.delete_branch(branch, by="rhea")
            else:
                self.world.repository.push(branch, {f"{MEDDLED}{self.act()}.py": "x\n"}, "Meddle", by="rhea")
            self.let_pass(pause)

    @rule(pause=st.integers(0, 100))
    def cancel_run(self, pause: int) -> None:
        """Somebody cancels a CI run of a train."""
        assert self.trains is not None
        running = [run for run in self.trains.candidate_runs() if run.suite.status != "completed"]
        if running:
            self.witness.note(f"CI of {running[0].suite.head_branch} is cancelled")
            self.world.github.actions.cancel(running[0], actor=self.world.github.actor("rhea"))
            self.let_pass(pause)

    def calm_down(self) -> None:
        """Resume the queue, and repair the base."""
        if _BROKEN in self.world.repository.files():
            self._break_or_repair()
        elif any(run.conclusion == "failure" for run in self.checks_of_main()):
            # A check of the base has flaked, or people merged too much by hand: a person repairs that.
            files = self.world.repository.files()
            too_much = [] if total_at_most_ten(files) else [path for path in files if path.startswith("add-")]
            sizes: dict[str, str | None] = {path: None for path in too_much if path.endswith(".txt")}
            self.push_to_main({f"repaired-{self.act()}.py": "x\n", **sizes}, "Repair")
        paused: Any = self.run(self.world.paused())
        if paused is not None:
            self.witness.note(f"paused: {paused}")
            self._say("/resume")
            self.let_pass(60)
            self._say("/resume")
