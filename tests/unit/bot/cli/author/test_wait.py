"""`--wait`: each change is one line, a server that is away is waited for, and each outcome has its exit code."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from bot.cli.author.api_client import ApiAnswer, ConnectionFailed, Retries
from bot.cli.author.land import GIVE_UP_SECONDS, LandingWait, _until_done, waiting_at_most
from bot.cli.author.session import Session, code_of
from bot.cli.console import ExitCode

WAIT = "/api/v1/repositories/acme/widgets/pulls/7/queue?wait=60"


def state(name: str, position: int = 0, *, outcome: str | None = None, sentence: str = "It waits.") -> ApiAnswer:
    """An answer about #7."""
    queued = name != "not_queued"
    entry = {"position": position, "pending_checks": [], "eta": None} if queued else None
    call = {"method": "GET", "path": WAIT} if queued else {"method": "POST", "path": "/api/v1/again"}
    body: dict[str, Any] = {
        "state": name,
        "outcome": outcome,
        "base_branch": "main",
        "entry": entry,
        "sentence": sentence,
        "detail": None,
        "failing": [],
        "next": {"sentence": "Wait.", "call": call},
    }
    return ApiAnswer(200, body)


LANDED = state("not_queued", outcome="landed", sentence="It landed.")


class Server:
    """Gives one answer after another; each takes a minute if it is about a wait."""

    def __init__(self, *answers: ApiAnswer | str) -> None:
        self._answers: Iterator[ApiAnswer | str] = iter(answers)
        self.paths: list[str] = []
        self.now = 0.0
        self.waits = True
        self.slept: list[float] = []

    def call(self, _method: str, path: str, **_more: Any) -> ApiAnswer:
        self.paths.append(path)
        answer = next(self._answers)
        if isinstance(answer, str):
            raise ConnectionFailed(answer)
        if self.waits and "wait=" in path:
            self.now += 60
        return answer

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def run(server: Server, *, timeout: float | None = None, as_json: bool = False) -> ExitCode:
    """Wait for #7, and return the exit code, also of a command that stopped."""
    session = Session(server, None, as_json)  # type: ignore[arg-type]
    waiter = LandingWait(
        session,
        "/api/v1/repositories/acme/widgets/pulls/7",
        "acme/widgets#7",
        timeout,
        Retries(lambda: server.now, server.sleep),
    )
    try:
        return waiter.run()
    except SystemExit as stopped:
        return ExitCode(int(str(stopped.code)))


def test_each_change_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """What did not change is not printed again, and IMQ's own link is followed to wait for the next change."""
    server = Server(state("pending", 1), state("pending", 1), state("pending"), state("checking"), LANDED)
    assert run(server) is ExitCode.DONE
    assert capsys.readouterr().out.splitlines() == [
        "acme/widgets#7 pending at position 2 for main: It waits.",
        "acme/widgets#7 pending at position 1 for main: It waits.",
        "acme/widgets#7 checking at position 1 for main: It waits.",
        "acme/widgets#7 landed: It landed.",
        "  next: Wait.",
    ]
    assert server.paths[1:] == [WAIT] * 4


@pytest.mark.parametrize("as_json", [False, True])
def test_pull_request_that_is_not_ready_is_printed_with_what_to_do(
    as_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """It waits until somebody acts, so the one who waits learns what is missing; programs read the outcome alone."""
    server = Server(state("not_ready", sentence="An approval is missing."), LANDED)
    assert run(server, as_json=as_json) is ExitCode.DONE
    printed = capsys.readouterr()
    lines = (printed.err if as_json else printed.out).splitlines()
    assert lines[:2] == ["acme/widgets#7 not_ready at position 1 for main: An approval is missing.", "  next: Wait."]
    assert not as_json or json.loads(printed.out)["outcome"] == "landed"


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        ("landed", ExitCode.DONE),
        ("failed", ExitCode.FAILED),
        ("cancelled", ExitCode.DEQUEUED),
        ("refused", ExitCode.REFUSED),
        (None, ExitCode.DEQUEUED),
    ],
)
def test_outcome_has_its_exit_code(outcome: str | None, code: ExitCode) -> None:
    """A script need not read the text."""
    assert run(Server(state("not_queued", outcome=outcome))) is code


def test_restart_of_the_server_is_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is printed about it, and IMQ is asked more rarely each time."""
    away = ApiAnswer(503, {"error": "the database is unavailable"})
    server = Server(state("checking"), "no answer", away, "no answer", LANDED)
    assert run(server) is ExitCode.DONE
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert server.slept == sorted(server.slept)
    assert len(server.slept) == 4


def test_server_that_stays_away_is_given_up(capsys: pytest.CaptureFixture[str]) -> None:
    """After a quarter of an hour, with a code of its own."""
    server = Server(state("checking"), *(["no answer."] * 1000))
    assert run(server) is ExitCode.UNREACHABLE
    assert GIVE_UP_SECONDS < server.now < GIVE_UP_SECONDS + 120
    assert "stays queued" in capsys.readouterr().err


def test_server_that_answers_between_two_outages_is_not_given_up() -> None:
    """A quarter of an hour is the limit of one outage."""
    away = ["no answer."] * 25
    assert run(Server(state("checking"), *away, state("checking", 1), *away, LANDED)) is ExitCode.DONE


def test_bulk_call_outlasts_a_restart_and_ends_with_its_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits by the rules of a single landing."""
    running, done = ({"process_id": "p", "state": each, "version": each} for each in ("running", "done"))
    server = Server("no answer", ApiAnswer(200, running), ApiAnswer(503, {"error": "x"}), ApiAnswer(200, done))
    monkeypatch.setattr("time.sleep", server.sleep)
    assert _until_done(Session(server, None, False), running) == done  # type: ignore[arg-type]
    assert server.paths[-1] == "/api/v1/processes/p?wait=60&since=running"


def test_bulk_call_ends_at_a_refusal_and_at_a_server_that_stays_away(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A process that IMQ deleted has no results; after a restart IMQ continues."""
    running, codes = {"process_id": "p", "state": "running", "version": 1}, []
    for answers in ([ApiAnswer(404, {"error": "no such process"})], ["no answer."] * 80):
        server = Server(*answers)
        monkeypatch.setattr("time.sleep", server.sleep)
        with pytest.raises(SystemExit) as stopped:
            _until_done(Session(server, None, False), running)  # type: ignore[arg-type]
        codes.append(stopped.value.code)
    assert codes == [code_of(404), ExitCode.UNREACHABLE]
    assert "no answer. IMQ queues the pull requests once it runs again." in capsys.readouterr().err


def test_wait_outlasts_a_busy_server_and_asks_often_again_after_a_change() -> None:
    """A limit of calls passes; a state is often followed by another one."""
    busy = ApiAnswer(429, {"error": "too many calls"})
    server = Server(*[busy] * 6, state("checking"), busy, LANDED)
    assert run(server) is ExitCode.DONE
    assert server.slept[-3] > 10
    assert server.slept[-2:] == [1.0, 1.6]


def test_timeout_leaves_it_queued(capsys: pytest.CaptureFixture[str]) -> None:
    """The message says so."""
    assert run(Server(*([state("checking")] * 100)), timeout=300) is ExitCode.TIMED_OUT
    assert "It stays queued" in capsys.readouterr().err


def test_server_without_long_polls_is_asked_ever_more_rarely() -> None:
    """A server may answer at once, such as one with many callers."""
    server = Server(*([state("checking")] * 12), LANDED)
    server.waits = False
    assert run(server) is ExitCode.DONE
    assert server.slept[-1] == 30


@pytest.mark.parametrize(("status", "code"), [(401, ExitCode.NOT_ALLOWED), (404, ExitCode.NOT_ALLOWED)])
def test_token_that_ends_while_waiting_ends_the_wait(status: int, code: ExitCode) -> None:
    """No further call is made with it."""
    assert run(Server(state("checking"), ApiAnswer(status, {"error": "unknown"}))) is code


def test_json_is_the_last_answer_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """Changes are on the other stream, for people."""
    assert run(Server(state("checking"), LANDED), as_json=True) is ExitCode.DONE
    printed = capsys.readouterr()
    assert printed.out.startswith("{")
    assert printed.out.count('"state"') == 1
    assert "checking" in printed.err


@pytest.mark.parametrize(
    ("path", "left", "expected"),
    [("/a/queue?wait=60", 0.4, "/a/queue?wait=1"), ("/a/queue?wait=60", 900, "/a/queue?wait=60"), ("/a", 3, "/a")],
)
def test_call_waits_no_longer_than_the_command_may(path: str, left: float, expected: str) -> None:
    """`--timeout 1s` took a minute: the server answers a waiting call at the next change only."""
    assert waiting_at_most(path, left) == expected


def test_pauses_grow_up_to_the_longest_and_begin_again_after_a_change() -> None:
    """A change is often followed by another one."""
    server = Server()
    retries = Retries(lambda: server.now, server.sleep)
    for _ in range(12):
        retries.rest()
    assert server.slept[:3] == [1.0, 1.6, pytest.approx(2.56)]
    assert server.slept[-2:] == [30.0, 30.0]
    retries.shorten()
    retries.rest()
    assert server.slept[-1] == 1.0


def test_server_is_given_up_after_the_time_that_calls_take_or_pauses() -> None:
    """A call may hang for half a minute, and a clock may not move."""
    server = Server()
    retries = Retries(lambda: server.now, server.sleep)
    assert retries.outlasts(10, 2)
    server.now += 30
    assert not retries.outlasts(10, 2)
    retries.answered()
    assert [retries.outlasts(3, 2) for _ in range(3)] == [True, True, False]
    stopped = Retries(lambda: 0.0, server.sleep)
    assert [stopped.outlasts(3, 2) for _ in range(3)] == [True, True, False]
