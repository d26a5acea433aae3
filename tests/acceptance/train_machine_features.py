"""A state machine of Hypothesis over trains: what else people ask of IMQ than to queue one pull request."""

from datetime import timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from github_emulator import ApiError
from queue_engine.domain.notice import ReplyKind
from queue_engine.domain.reasons import Reason
from tests.acceptance.train_machine_base import UPDATE
from tests.acceptance.train_machine_failures import TrainMachineFailures
from tests.acceptance.train_stage import CHECK, configure_at

_SHADOW_AT_MOST = timedelta(minutes=12)
"""How long after the push IMQ may still write: it has read the configuration by the next sweep."""


class TrainMachineFeatures(TrainMachineFailures):
    """Orders among pull requests, tests without queueing, reverts, delegations, updates by label, shadow mode."""

    @rule(
        data=st.data(),
        key=st.sampled_from(["Depends-On", "Lands-With", "Lands-With", "none"]),
        count=st.integers(1, 2),
        pause=st.integers(0, 200),
    )
    def describe(self, data: st.DataObject, key: str, count: int, pause: int) -> None:
        """Authors write into their descriptions what lands before a pull request, or together with it."""
        pull = self.draw(data)
        others = [each for each in self.pulls if each is not pull]
        if pull is None or not others:
            return
        chosen = data.draw(st.lists(st.sampled_from(others), min_size=count, max_size=count, unique_by=id))
        if key == "Lands-With":
            members = [pull, *(each for each in chosen if each.state == "open")]
            for each in members:
                self.witness.describe(each, together=[one.number for one in members if one is not each])
        else:
            self.witness.describe(pull, before=[each.number for each in chosen] if key == "Depends-On" else [])
        self.let_pass(pause)

    @rule(data=st.data(), words=st.sampled_from(["/try", "/try queue"]), pause=st.integers(0, 400))
    def try_without_queueing(self, data: st.DataObject, words: str, pause: int) -> None:
        """Somebody has a pull request tested without queueing it."""
        pull = self.draw(data)
        if pull is not None:
            self.witness.note(f"#{pull.number} {words}")
            pull.comment(words, by="mona")
            self.let_pass(pause)

    @rule(data=st.data(), words=st.sampled_from(["/revert", "/revert", "/reland"]), pause=st.integers(0, 400))
    def revert_or_reland(self, data: st.DataObject, words: str, pause: int) -> None:
        """Somebody has IMQ take back what landed, or open it again."""
        landed = [pull for pull in self.pulls if pull.merged]
        if landed:
            pull = data.draw(st.sampled_from(landed))
            self.witness.note(f"#{pull.number} {words}")
            if words == "/revert":
                self.witness.ask_for_revert(pull)
            pull.comment(words, by="mona")
            self.let_pass(pause)

    @rule(data=st.data(), words=st.sampled_from(["/queue", "/queue alone", "/requeue"]), pause=st.integers(0, 200))
    def queue_by_comment(self, data: st.DataObject, words: str, pause: int) -> None:
        """Somebody queues a pull request by a comment."""
        pull = self.draw(data)
        if pull is not None:
            self.witness.agree_by_comment(pull, words, by="mona")
            self.let_pass(pause)

    @rule(data=st.data(), delegates=st.booleans(), pause=st.integers(0, 200))
    def delegate(self, data: st.DataObject, delegates: bool, pause: int) -> None:
        """An author without the right queues a pull request, which counts only if somebody with it has let him."""
        pull = self.draw(data)
        if pull is None or len(self.pulls) % 2:
            return
        if pull.record.author.login != "tria":
            pull = self._open_for_author()
        if delegates:
            self.witness.note(f"#{pull.number} /delegate")
            pull.comment("/delegate", by="mona")
            self.let_pass(10)
            self.witness.agree_by_comment(pull, "/queue", by="tria")
        else:
            self.witness.note(f"#{pull.number} /queue without the right")
            pull.comment("/queue", by="tria")
        self.let_pass(pause)

    def _open_for_author(self) -> Any:
        """Open a pull request of an author who may not queue: somebody else has pushed its branch."""
        assert self.trains is not None
        self.trains.number += 1
        name, repository = f"add-{self.trains.number}", self.world.repository
        repository.create_branch(name, "main")
        repository.push(name, {f"{name}.py": f"{name}\n"}, name, by="mona")
        repository.open_pull_request(name, head=name, by="tria")
        self.adopt()
        self.let_pass(200)
        return self.pulls[-1]

    @rule(data=st.data(), pause=st.integers(0, 200))
    def label_for_updates(self, data: st.DataObject, pause: int) -> None:
        """Somebody wants a pull request kept up to date, or not any more."""
        pull = self.draw(data)
        if pull is not None:
            self.witness.note(f"#{pull.number} {UPDATE}: {UPDATE not in pull.labels}")
            (pull.unlabel if UPDATE in pull.labels else pull.label)(UPDATE, by="mona")
            self.let_pass(pause)

    @rule(data=st.data(), pause=st.integers(0, 200))
    def enable_auto_merge(self, data: st.DataObject, pause: int) -> None:
        """Somebody presses "Enable auto-merge", which queues where the configuration says so."""
        pull = self.draw(data)
        if pull is None:
            return
        try:
            pull.enable_auto_merge(by="mona")
        except ApiError as refusal:
            self.witness.note(f"#{pull.number} auto-merge refused: {refusal}")
        else:
            self.witness.note(f"#{pull.number} auto-merge")
            self.witness.agreed.setdefault(pull.number, pull.head_sha)
        self.let_pass(pause)

    @rule(data=st.data(), pause=st.integers(0, 900))
    def break_landed(self, data: st.DataObject, pause: int) -> None:
        """From now on the check fails on every tree that has what one pull request brought."""
        landed = [pull for pull in self.pulls if pull.number in self.witness.landed]
        if landed and not self.broken:
            pull = data.draw(st.sampled_from(landed))
            self.witness.note(f"#{pull.number} breaks the check from now on")
            self.broken = pull.record.title
            self.let_pass(pause)

    @rule(pause=st.integers(0, 1800))
    def shadow_for_a_while(self, pause: int) -> None:
        """Somebody switches to shadow mode, and back after a while: meanwhile IMQ writes nothing."""
        self.witness.note("shadow mode")
        server, self.shadowed = self.world.server, True
        self.push_to_main(configure_at("off", method=self.ground.method, more=f"mode: shadow\n{self.more}"), "Shadow")
        self.let_pass(pause)
        if timedelta(seconds=pause) > _SHADOW_AT_MOST:
            since = len(server.requests)
            self.let_pass(600)
            wrote = [f"{each.method} {each.path}" for each in list(server.requests)[since:] if each.method != "GET"]
            wrote = [each for each in wrote if "/graphql" not in each and "access_tokens" not in each]
            assert not wrote, f"shadow mode, but {wrote}\n{self.witness.report}"
        self.witness.note("shadow mode ends")
        self.push_to_main(configure_at(self.ground.trains, method=self.ground.method, more=self.more), "Configure")

    def judge_end(self) -> None:
        """Fail where a test without queueing has no result, or a false one, or a pull request waits for nothing."""
        self.run(self._judge_tests())
        waits = [why for pull in self.pulls if (why := self.run(self._waits_wrongly(pull)))]
        assert not waits, f"{waits}\n{self.witness.report}"

    async def _judge_tests(self) -> None:
        record = self.world.repository.record
        for pull in self.pulls:
            async with self.world.bot.engine.store.reading() as tx:
                answer = await tx.answers.find(record.id, pull.number)
            for reply in () if answer is None else answer.replies:
                assert reply.code is not ReplyKind.TRYING, f"#{pull.number} is still tested\n{self.witness.report}"
                if reply.code in (ReplyKind.TRY_PASSED, ReplyKind.TRY_FAILED):
                    runs = record.runs_by_sha.get(reply.facts["candidate"], [])
                    passed = any(run.name == CHECK and run.conclusion == "success" for run in runs)
                    failed = any(run.name == CHECK and run.conclusion == "failure" for run in runs)
                    true = passed if reply.code is ReplyKind.TRY_PASSED else failed
                    assert true, f"#{pull.number} says {reply.code}\n{self.witness.report}"

    async def _waits_wrongly(self, pull: Any) -> str | None:
        """Why a pull request that waits outside its queue should not do so any more (P5)."""
        record = pull.record.repository
        async with self.world.bot.engine.store.reading() as tx:
            entry = await tx.entries.find(record.id, pull.number)
        if entry is None or entry.is_ready or not entry.unmet:
            return None
        for each in entry.unmet:
            match each.reason:
                case Reason.DEPENDENCY_OPEN:
                    number = int((each.detail or "0").rpartition("#")[2])
                    true = record.pulls[number].state == "open"
                case Reason.DRAFT:
                    true = pull.record.draft
                case Reason.SET_WAITING:
                    true = not self.witness.is_set_ready(pull.number)
                case _:
                    true = True
            if not true:
                return f"#{pull.number} waits for {each.reason} {each.detail}"
        return None
