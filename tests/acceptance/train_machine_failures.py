"""A state machine of Hypothesis over trains: kills, faults, lost webhooks, flaky checks and changed rules."""

from datetime import timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from github_emulator import DropConnection, Fault, RecordedCall
from tests.acceptance.train_machine_base import TrainMachineBase

STEPS = (
    "POST /repos/{owner}/{repo}/git/refs",
    "POST /repos/{owner}/{repo}/merges",
    "POST /repos/{owner}/{repo}/git/commits",
    "POST /repos/{owner}/{repo}/pulls",
    "PATCH /repos/{owner}/{repo}/pulls/{number}",
    "POST /repos/{owner}/{repo}/actions/workflows/{workflow_id}/dispatches",
    "PUT /repos/{owner}/{repo}/pulls/{number}/merge",
    "DELETE /repos/{owner}/{repo}/git/refs/{ref}",
    "GET /repos/{owner}/{repo}/commits/{ref}/check-runs",
    "GET /repos/{owner}/{repo}/branches/{branch}",
    "POST /graphql",
    "POST /repos/{owner}/{repo}/issues/{number}/comments",
)
"""The requests of building, publishing, passing, landing and cleaning."""
_LATEST = timedelta(minutes=2)
"""How late a delayed webhook arrives."""


class TrainMachineFailures(TrainMachineBase):
    """Failures of machines and networks, and what GitHub does otherwise than usual."""

    @rule(template=st.sampled_from(STEPS), phase=st.sampled_from(["before", "after"]), pause=st.integers(10, 600))
    def kill_at(self, template: str, phase: str, pause: int) -> None:
        """`kill -9` hits IMQ at the next request of this kind, before or after GitHub carries it out."""
        before = self.killed

        async def hook(exchange: RecordedCall) -> None:
            if (exchange.template, exchange.phase) == (template, phase) and self._passing is not None:
                self.world.server.on_request = None
                self.witness.note(f"killed {phase} {template}")
                self.kill()
                raise DropConnection

        self.world.server.on_request = hook
        self.let_pass(pause)
        self.world.server.on_request = None
        if self.killed == before:
            self.witness.note(f"no request to be killed at: {template}")

    @rule(
        template=st.sampled_from(STEPS),
        kind=st.sampled_from(["fail", "reset", "apply_then_fail", "apply_then_reset", "bad_json", "secondary_limit"]),
        times=st.sampled_from([1, 1, 4]),
        pause=st.integers(10, 600),
    )
    def lose_an_answer(self, template: str, kind: Any, times: int, pause: int) -> None:
        """The answer to one request gets lost, or to several; it may have been carried out."""
        method, _, route = template.partition(" ")
        self.witness.note(f"{kind} at {template}, {times} times")
        self.world.server.faults.add(Fault(kind=kind, method=method, route=route, status=502, times=times))
        self.let_pass(pause)

    @rule(
        kind=st.sampled_from(["drop", "double", "delay", "reorder"]),
        times=st.integers(1, 12),
        event=st.sampled_from([None, None, "push", "pull_request", "check_run", "check_suite"]),
    )
    def disturb_webhooks(self, kind: str, times: int, event: str | None) -> None:
        """The next webhooks are lost, or arrive twice, or late."""
        faults = self.world.github.webhooks.faults
        self.witness.note(f"{kind} the next {times} webhooks of {event or 'any event'}")
        self.witness.unheard = True
        match kind:
            case "drop":
                faults.drop(times, event=event)
            case "double":
                faults.double(times, event=event)
            case "delay":
                faults.delay(_LATEST, times, event=event)
            case _:
                faults.reorder(_LATEST, times, event=event)

    @rule(times=st.integers(1, 3), pause=st.integers(0, 300))
    def flake(self, times: int, pause: int) -> None:
        """The next checks fail, whatever they test."""
        self.flakes += times
        self.witness.note(f"the next {times} checks flake")
        self.let_pass(pause)

    @rule(pause=st.integers(10, 900))
    def lack_permission(self, pause: int) -> None:
        """The owner takes IMQ's right to write contents away for a while."""
        self.witness.note("IMQ may not write contents")
        self.world.grant("contents", "read")
        self.let_pass(pause)
        self.witness.note("IMQ may write contents again")
        self.world.grant("contents", "write")

    @rule(pause=st.integers(0, 300))
    def switch_bypass(self, pause: int) -> None:
        """An administrator gives IMQ the bypass, or takes it away."""
        rulesets = [each for each in self.world.repository.record.rulesets.values() if each.name == "main"]
        if rulesets:
            self.world.repository.remove_ruleset(rulesets[0], by="rhea")
            mode = "none" if "imq" in rulesets[0].bypass else "exempt"
            self.witness.note(f"IMQ's bypass: {mode}")
            self.set_rules(mode)
        self.let_pass(pause)

    @rule(seconds=st.sampled_from([1, 30, 200, 900]))
    def wait(self, seconds: int) -> None:
        """Time passes."""
        self.let_pass(seconds)
