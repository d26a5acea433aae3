"""`imq token`: what an operator sees, and what is stored."""

from datetime import UTC, datetime

import pytest

from queue_engine.store.tokens import Token
from tests.bot.commands.imq import Imq


def stored(imq: Imq) -> tuple[Token, ...]:
    return imq.within(lambda tx: tx.tokens.all())


def test_token_is_printed_once_and_is_the_one_that_is_known(imq: Imq) -> None:
    """Alone on standard output, so that a script can take it; how to use it stands on standard error."""
    result = imq("token", "create", "ci", "--login", "ada")
    secret = result.stdout.strip()
    assert result.exit_code == 0
    assert "Authorization: Bearer" in result.stderr
    known = imq.within(lambda tx: tx.tokens.find(secret))
    assert known is not None
    assert (known.name, known.login, known.operator, known.last_used_at) == ("ci", "ada", False, None)


def test_operators_token_is_one_when_it_is_said(imq: Imq) -> None:
    """Nobody gets that right by default."""
    imq("token", "create", "ci")
    imq("token", "create", "ops", "--operator")
    assert [(token.name, token.login, token.operator) for token in stored(imq)] == [
        ("ci", None, False),
        ("ops", None, True),
    ]


def test_name_that_is_taken_is_told(imq: Imq) -> None:
    """The first token stays as it is."""
    first = imq("token", "create", "ci").stdout.strip()
    result = imq("token", "create", "ci", "--operator")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "Error: There is a token named ci already: revoke it, or choose another name.\n"
    known = imq.within(lambda tx: tx.tokens.find(first))
    assert known is not None
    assert not known.operator


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["two words"], "a name is letters"),
        (["-"], "a name is letters"),
        (["x" * 101], "a name is letters"),
        (["ci", "--login", "ada lovelace"], "that is no GitHub login"),
        (["ci", "--login", ""], "that is no GitHub login"),
    ],
)
def test_name_or_login_that_is_none_is_refused(imq: Imq, arguments: list[str], problem: str) -> None:
    """Before anything is stored."""
    result = imq("token", "create", *arguments)
    assert result.exit_code == 2
    assert problem in result.stderr
    assert stored(imq) == ()


def test_list_shows_all_but_the_secrets(imq: Imq) -> None:
    """Whom each is for, and whether anybody still uses it."""
    assert imq("token", "list").stdout == "There are no tokens.\n"
    secret = imq("token", "create", "ci", "--login", "ada").stdout.strip()
    imq("token", "create", "ops", "--operator")
    used = datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)
    token = stored(imq)[0]
    imq.within(lambda tx: tx.tokens.note_use(token, used))
    titles, ci, ops = imq("token", "list").stdout.splitlines()
    assert titles.split() == ["NAME", "LOGIN", "OPERATOR", "CREATED", "LAST", "USED"]
    assert ci.split()[:3] + ci.split()[-2:] == ["ci", "ada", "no", "2031-05-06", "07:08:09Z"]
    assert ops.split()[:3] + ops.split()[-1:] == ["ops", "-", "yes", "-"]
    assert secret not in ci


def test_revoked_token_is_gone_at_once(imq: Imq) -> None:
    """And its name is free again."""
    secret = imq("token", "create", "ci").stdout.strip()
    assert imq("token", "revoke", "ci").stdout == "Revoked ci.\n"
    assert imq.within(lambda tx: tx.tokens.find(secret)) is None
    result = imq("token", "revoke", "ci")
    assert (result.exit_code, result.stderr) == (
        1,
        "Error: There is no token named ci; `imq token list` shows those that there are.\n",
    )
    assert imq("token", "create", "ci").exit_code == 0
