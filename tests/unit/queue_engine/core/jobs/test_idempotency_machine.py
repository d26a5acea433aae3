"""Idempotency keys under any sequence of operations, against the notes that a person would keep."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from sqlalchemy import delete, select

from queue_engine.core.database.database import Database
from queue_engine.core.jobs.idempotency import (
    KEPT,
    KeyConflict,
    KeyHeld,
    KeyLost,
    KeyReply,
    Keys,
    NewKey,
    idempotency_keys,
)

T = TypeVar("T")
LEASE = timedelta(minutes=1)
SCOPES, NAMES, ENDPOINTS = st.sampled_from("ab"), st.sampled_from("xy"), st.sampled_from("mn")
STEPS = st.sampled_from([timedelta(seconds=1), LEASE / 2, LEASE, KEPT / 2, KEPT])
SETTINGS = settings(
    max_examples=40,
    stateful_step_count=30,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    # A failing sequence is reported as it was found: to shorten it on a database takes minutes.
    phases=[Phase.generate],
)


@dataclass
class Note:
    """What is known of a key: who has it until when, or what was answered."""

    endpoint: str
    expires: datetime
    holder: NewKey | None
    until: datetime
    answer: KeyReply | None = None


class KeysMachine(RuleBasedStateMachine):
    """Callers come with keys, finish, fail, die (by never coming back) and wake up late, while time passes."""

    def __init__(self, runner: asyncio.Runner, database: Database) -> None:
        super().__init__()
        self._runner = runner
        self._database = database
        self.now = datetime(2026, 1, 5, tzinfo=UTC)
        self.notes: dict[tuple[str, str], Note] = {}
        self.callers: list[NewKey] = []
        self._within(lambda keys: keys._connection.execute(delete(idempotency_keys)))

    def _within(self, operation: Callable[[Keys], Awaitable[T]]) -> T:
        async def run() -> T:
            async with self._database.transaction() as connection:
                return await operation(Keys(connection))

        return self._runner.run(run())

    def _note(self, scope: str, key: str) -> Note | None:
        note = self.notes.get((scope, key))
        return None if note is None or note.expires <= self.now else note

    def _holds(self, caller: NewKey) -> Note | None:
        note = self.notes.get((caller.scope, caller.key))
        return note if note is not None and note.holder == caller else None

    @rule(scope=SCOPES, key=NAMES, endpoint=ENDPOINTS)
    def begin(self, scope: str, key: str, endpoint: str) -> None:
        """A request comes: it runs, or gets the answer, or gets the reason why not."""
        begun = self._within(
            lambda keys: keys.begin(scope, key, endpoint=endpoint, request_hash="h", now=self.now, lease=LEASE)
        )
        note = self._note(scope, key)
        if note is not None and note.endpoint != endpoint:
            assert begun == KeyConflict()
        elif note is not None and note.answer is not None:
            assert begun == note.answer
        elif note is not None and note.until > self.now:
            assert begun == KeyHeld(note.until - self.now)
        else:
            assert isinstance(begun, NewKey)
            assert (begun.scope, begun.key) == (scope, key)
            self.callers.append(begun)
            self.notes[scope, key] = Note(endpoint, self.now + KEPT, begun, self.now + LEASE)

    @precondition(lambda self: self.callers)
    @rule(data=st.data(), status=st.sampled_from([200, 404]))
    def finish(self, data: st.DataObject, status: int) -> None:
        """A caller answers; only the present holder of the key may."""
        caller = data.draw(st.sampled_from(self.callers))
        note, answer = self._holds(caller), KeyReply(status, {"status": status})
        try:
            self._within(lambda keys: keys.finish(caller, status=answer.status, body=answer.body))
        except KeyLost:
            assert note is None
        else:
            assert note is not None
            note.holder, note.answer = None, answer

    @precondition(lambda self: self.callers)
    @rule(data=st.data())
    def renew(self, data: st.DataObject) -> None:
        """A caller is at it for longer."""
        caller = data.draw(st.sampled_from(self.callers))
        note = self._holds(caller)
        assert self._within(lambda keys: keys.renew(caller, self.now + LEASE)) == (note is not None)
        if note is not None:
            note.until = self.now + LEASE

    @precondition(lambda self: self.callers)
    @rule(data=st.data())
    def abandon(self, data: st.DataObject) -> None:
        """A caller could not do it; a key that is no longer its own stays as it is."""
        caller = data.draw(st.sampled_from(self.callers))
        self._within(lambda keys: keys.abandon(caller))
        if self._holds(caller) is not None:
            del self.notes[caller.scope, caller.key]

    @rule(scope=SCOPES, names=st.sets(NAMES, min_size=1))
    def record(self, scope: str, names: set[str]) -> None:
        """Requests that are answered by being stored."""
        expected = {name for name in names if self._note(scope, name) is None}
        received = [(name, "push") for name in names]
        assert self._within(lambda keys: keys.record(scope, received, self.now)) == expected
        for name in expected:
            self.notes[scope, name] = Note("push", self.now + KEPT, None, self.now, KeyReply(202, None))

    @rule(step=STEPS)
    def pass_time(self, step: timedelta) -> None:
        """Leases end, keys expire."""
        self.now += step

    @rule()
    def purge(self) -> None:
        """Expired keys are deleted; no caller notices."""
        gone = [key for key in self.notes if self._note(*key) is None]
        assert self._within(lambda keys: keys.purge(self.now)) == len(gone)
        for key in gone:
            del self.notes[key]

    @invariant()
    def keys_are_as_noted(self) -> None:
        """No key is lost, none stays that was dropped, and each answer is the one that was given."""
        stored = self._within(self._read)
        assert stored == {key: note.answer and note.answer.status for key, note in self.notes.items()}

    async def _read(self, keys: Keys) -> dict[tuple[str, str], int | None]:
        columns = idempotency_keys.c
        rows = await keys._connection.execute(select(columns.scope, columns.key, columns.response_status))
        return {(row.scope, row.key): row.response_status for row in rows}


@pytest.mark.long("postgres")
def test_keys_under_any_sequence_of_operations_are_as_noted_by_hand(database_url: str) -> None:
    """Callers begin, finish, give up, die or come too late: each request is done once, and answered alike."""
    database = Database(database_url)
    with asyncio.Runner() as runner:

        class Machine(KeysMachine):
            def __init__(self) -> None:
                super().__init__(runner, database)

        run_state_machine_as_test(Machine, settings=SETTINGS)
        runner.run(database.close())
