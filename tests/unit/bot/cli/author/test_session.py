"""To whom an author's token goes, and what a command says of a server that is no IMQ."""

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest
from click.testing import CliRunner

from bot.cli.author import session
from bot.cli.author.api_client import ApiAnswer, ApiClient
from bot.cli.author.clone import Branch, CloneError
from bot.cli.console import ExitCode
from bot.cli.main import main

EVIL, OWN = "https://evil.example", "https://imq.example"


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str | None]]:
    """The addresses that were called, each with the token; each answers with JSON of its own."""
    found: list[tuple[str, str | None]] = []

    def call(client: ApiClient, _method: str, _path: str, *_: Any, **_more: Any) -> ApiAnswer:
        found.append((client.url, client._token))
        content = b"" if ANSWERS[-1] is EMPTY else json.dumps(ANSWERS[-1]).encode()
        return client._parsed(200, content, {})

    monkeypatch.setattr(ApiClient, "call", call)
    monkeypatch.setattr(session, "_of_clone", lambda: EVIL)
    monkeypatch.delenv("IMQ_URL", raising=False)
    return found


EMPTY = "an answer without a body"
ANSWERS: list[Any] = [None]


def imq(*arguments: str, **environ: str) -> tuple[int, str]:
    """Run a command; its exit code and output."""
    runner = CliRunner(env={"IMQ_TOKEN": "imq_secret", **environ})
    result = runner.invoke(main, list(arguments), catch_exceptions=False)
    return result.exit_code, result.output


def test_token_of_the_environment_goes_to_no_address_of_a_clone(called: list[tuple[str, str | None]]) -> None:
    """The person who made a clone chooses its `imq.url`, and received the token."""
    for command in (("status",), ("why", "1"), ("land", "1")):
        code, output = imq(*command, "-R", "acme/widgets")
        assert (code, called) == (ExitCode.USAGE, []), output
        assert "IMQ_TOKEN is set without IMQ_URL" in output
    imq("why", "1", "-R", "acme/widgets", IMQ_URL=OWN)
    imq("why", "1", "-R", "acme/widgets", "--server", OWN)
    assert set(called) == {(OWN, "imq_secret")}


@pytest.mark.parametrize("token", ["imq_\rsecret", "imq_\x7fsecret", "imq_secret\u2026"])
def test_token_that_no_header_can_carry_is_refused_and_not_repeated(
    called: list[tuple[str, str | None]], token: str
) -> None:
    """What http.client says about such a value has the value itself; white space at its ends is none of it."""
    code, output = imq("status", "-R", "acme/widgets", IMQ_TOKEN=token, IMQ_URL=OWN)
    assert (code, called, "secret" in output) == (ExitCode.USAGE, [], False), output
    imq("why", "1", "-R", "acme/widgets", IMQ_TOKEN="imq_secret\r\n", IMQ_URL=OWN)
    assert called == [(OWN, "imq_secret")]


HUGE = {"access": "write", "verification_uri": "x", "user_code": "x", "id": "x", "interval": 10**400, "expires_in": 9}
FOREIGN = [[], {}, "text", 7, EMPTY, {"queues": 1}, {"queues": [{}]}, {"state": []}, {"state": "x"}, HUGE]


@pytest.mark.parametrize("answer", FOREIGN)
@pytest.mark.parametrize("command", [("status",), ("why", "1"), ("land", "1"), ("login", OWN)])
def test_json_of_another_server_is_a_sentence_and_no_traceback(
    called: list[tuple[str, str | None]], monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], answer: Any
) -> None:
    """A mistyped address, or a proxy that answers for IMQ."""
    monkeypatch.setitem(globals(), "ANSWERS", [answer])
    more = () if command[0] == "login" else ("-R", "acme/widgets")
    environ = {"IMQ_TOKEN": ""} if command[0] == "login" else {"IMQ_URL": OWN}
    code, output = imq(*command, *more, **environ)
    assert called
    assert code == ExitCode.UNREACHABLE or answer == {"state": "x"}, output
    assert code == ExitCode.DONE or f"{OWN} answered, but not as IMQ does" in output, output


@pytest.mark.parametrize(("waits", "shown_at", "asked"), [(True, 3, 3), (True, 9, 4), (False, 2, 1)])
def test_pull_request_that_reads_do_not_show_yet_is_asked_for_again_while_a_command_waits(
    monkeypatch: pytest.MonkeyPatch, waits: bool, shown_at: int, asked: int
) -> None:
    """GitHub's reads lag after it was opened; a person who only asks gets the answer at once."""
    shown = [{"number": 7, "head_sha": "a1", "base_branch": "main"}]
    answers, pauses = [shown if count >= shown_at else [] for count in range(1, 10)], list[float]()
    left = iter(answers)
    branch = Branch(None, "change", "a1")
    monkeypatch.setattr(session, "clone_or_stop", lambda: SimpleNamespace(branch=lambda: branch))
    monkeypatch.setattr(session, "_open_ones", lambda *_: next(left))
    monkeypatch.setattr("time.sleep", pauses.append)
    if asked < shown_at:
        with pytest.raises(SystemExit):
            session.find_pull_request(cast(Any, None), None, "acme/widgets", waits=waits)
    else:
        found = session.find_pull_request(cast(Any, None), None, "acme/widgets", waits=waits)
        assert (found.number, found.pushed_head) == (7, "a1")
    assert pauses == [1, 2, 4][: asked - 1]


OLD, NEW, OTHER = (
    {"number": number, "head_sha": head, "base_branch": "main"} for number, head in ((7, "a0"), (7, "a1"), (8, "a1"))
)


@pytest.mark.parametrize(
    ("number", "answers", "pushed", "default", "asked", "bound"),
    [
        pytest.param(7, [[], [], [NEW]], True, False, 3, "a1", id="just_opened"),
        pytest.param(7, [[OLD], [NEW]], True, False, 2, "a1", id="just_pushed"),
        pytest.param(None, [[OLD], [NEW]], True, False, 2, "a1", id="just_pushed_without_a_number"),
        pytest.param(7, [[OLD]], False, False, 1, "a1", id="not_pushed"),
        pytest.param(7, [[OTHER]], True, False, 1, None, id="another_branch"),
        pytest.param(7, [[]], True, True, 1, None, id="default_branch"),
        pytest.param(7, [[]], False, False, 1, None, id="never_pushed"),
        pytest.param(7, [[]] * 4, True, False, 4, None, id="branch_without_a_pull_request"),
    ],
)
def test_number_names_the_checked_out_branch_although_reads_lag(
    monkeypatch: pytest.MonkeyPatch,
    number: int | None,
    answers: list[list[dict[str, Any]]],
    pushed: bool,
    default: bool,
    asked: int,
    bound: str | None,
) -> None:
    """The head that is checked out is bound, and no older one is taken for unpushed work; other numbers do not wait."""
    left, pauses = iter(answers), list[float]()
    branch = Branch(None, "change", "a1", pushed, default)
    monkeypatch.setattr(session, "clone_or_stop", lambda: SimpleNamespace(branch=lambda: branch))
    monkeypatch.setattr(session, "repository_of_clone", lambda *_: "acme/widgets")
    monkeypatch.setattr(session, "_open_ones", lambda *_: next(left))
    monkeypatch.setattr("time.sleep", pauses.append)
    found = session.find_pull_request(cast(Any, None), number, None, waits=True)
    assert (found.number, found.local_head, len(pauses) + 1) == (7, bound, asked)


def test_number_needs_no_branch_that_is_checked_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clone in the middle of a rebase is on none."""

    def on_none() -> Branch:
        raise CloneError("No branch is checked out.")

    monkeypatch.setattr(session, "clone_or_stop", lambda: SimpleNamespace(branch=on_none))
    monkeypatch.setattr(session, "repository_of_clone", lambda *_: "acme/widgets")
    found = session.find_pull_request(cast(Any, None), 7, None, waits=True)
    assert (found.repository, found.number, found.local_head) == ("acme/widgets", 7, None)
