"""`imq token`: what an operator sees, and what is stored."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update

from bot.cli import github as github_requests
from bot.cli.console import CommandRefused
from bot.settings.environment import Settings
from queue_engine.domain.facts import Actor, Permission
from queue_engine.domain.model import Repository
from queue_engine.store import Transaction
from queue_engine.store.tables import api_tokens
from queue_engine.store.tokens import Token, TokenPolicy
from tests.support.gates import NOW
from tests.unit.bot.cli.imq import Imq

ADA = Actor(4711, "Ada")


@pytest.fixture(autouse=True)
def github(monkeypatch: pytest.MonkeyPatch) -> None:
    """GitHub knows the login ada, in upper or lower case, and no other."""

    async def account_of(_settings: Settings, login: str) -> Actor:
        if login.casefold() != "ada":
            raise CommandRefused(f"GitHub has no account {login}.")
        return ADA

    monkeypatch.setattr(github_requests, "account_of", account_of)


def see(imq: Imq) -> None:
    """IMQ has seen two repositories, of two installations."""

    async def work(tx: Transaction) -> None:
        await tx.repositories.refresh(Repository(1, "acme", "widgets", 70))
        await tx.repositories.refresh(Repository(2, "globex", "gears", 71))

    imq.within(work)


def stored(imq: Imq) -> tuple[Token, ...]:
    return imq.within(lambda tx: tx.tokens.all())


def test_token_is_printed_once_and_is_the_one_that_is_known(imq: Imq) -> None:
    """Alone on standard output, so that a script can take it; how to use it stands on standard error."""
    result = imq("token", "create", "ci", "--person", "ada")
    secret = result.stdout.strip()
    assert result.exit_code == 0
    assert "Authorization: Bearer" in result.stderr
    known = imq.within(lambda tx: tx.tokens.find(secret, NOW))
    assert known is not None
    assert (known.name, known.grant, known.last_used_at) == ("ci", TokenPolicy(login="Ada", person_id=4711), None)


def test_token_is_an_operators_only_with_the_option(imq: Imq) -> None:
    """A token has no operator grant by default."""
    imq("token", "create", "ci", "--person", "ada")
    imq("token", "create", "ops", "--operator")
    assert [(token.name, token.login, token.grant.operator) for token in stored(imq)] == [
        ("ci", "Ada", False),
        ("ops", None, True),
    ]


def test_name_that_is_taken_is_refused(imq: Imq) -> None:
    """The first token stays as it is."""
    first = imq("token", "create", "ci", "--person", "ada").stdout.strip()
    result = imq("token", "create", "ci", "--operator")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "Error: A token named ci exists. Revoke it, or choose another name.\n"
    known = imq.within(lambda tx: tx.tokens.find(first, NOW))
    assert known is not None
    assert not known.grant.operator


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["two words"], "use at most 100 letters"),
        (["-"], "use at most 100 letters"),
        (["x" * 101], "use at most 100 letters"),
        (["ci", "--person", "ada lovelace"], "not a GitHub login"),
        (["ci", "--person", ""], "not a GitHub login"),
        (["ci"], "Give --person"),
        (["ci", "--read"], "Give --person"),
        (["ci", "--operator", "--installation", "70"], "Use --operator without"),
        (["ci", "--repository", "acme/widgets", "--read", "--write"], "Choose one of --read and --write."),
        (["ci", "--repository", "widgets"], "write OWNER/REPO, such as acme/rocket"),
        (["ci", "--operator", "--expires", "soon"], "give 90d, 12h, or a date"),
        (["ci", "--operator", "--expires", "0h"], "already passed"),
        (["ci", "--operator", "--expires", "2020-01-31"], "already passed"),
        (["ci", "--operator", "--expires", "99999d99999d"], "give 90d, 12h, or a date"),
        (["ci", "--repository", "acme/widgets", "--expires", ""], "give 90d, 12h, or a date"),
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
    assert imq("token", "list").stdout == "No tokens.\n"
    secret = imq("token", "create", "ci", "--person", "ada").stdout.strip()
    imq("token", "create", "ops", "--operator")
    used = datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)
    token = stored(imq)[0]
    imq.within(lambda tx: tx.tokens.note_use(token, used))
    titles, ci, ops = imq("token", "list").stdout.splitlines()
    assert titles.split() == ["NAME", "PERSON", "OPERATOR", "ACCESS", "SCOPE", "CREATED", "LAST", "USED", "EXPIRES"]
    assert ci.split()[:5] + ci.split()[-3:] == ["ci", "Ada", "no", "maintain", "-", "2031-05-06", "07:08:09Z", "-"]
    assert ops.split()[:6] + ops.split()[-2:] == ["ops", "-", "yes", "dead", "letters", "-", "-", "-"]
    assert secret not in ci


def test_operators_token_that_only_reads_is_listed_so(imq: Imq) -> None:
    """It sees everything, and changes nothing."""
    imq("token", "create", "board", "--operator", "--read")
    assert imq("token", "list").stdout.splitlines()[1].split()[:4] == ["board", "-", "yes", "read"]


def test_scope_of_a_token_is_stored_by_ids_and_shown_by_names(imq: Imq) -> None:
    """Names are reused; nothing is more than asked for, and a scope alone only reads."""
    see(imq)
    imq("token", "create", "a", "--repository", "ACME/widgets", "--repository", "globex/gears", "--write")
    imq("token", "create", "b", "--installation", "71", "--expires", "2099-01-31")
    imq("token", "create", "c", "--person", "ada", "--installation", "70", "--repository", "acme/widgets", "--read")
    later = datetime(2099, 1, 31, tzinfo=UTC)
    assert [token.grant for token in stored(imq)] == [
        TokenPolicy(access=Permission.WRITE, repositories=(1, 2)),
        TokenPolicy(access=Permission.READ, installation_id=71, expires_at=later),
        TokenPolicy(login="Ada", person_id=4711, access=Permission.READ, installation_id=70, repositories=(1,)),
    ]
    _, *rows = imq("token", "list").stdout.splitlines()
    assert "acme/widgets, globex/gears" in rows[0]
    assert "installation 71" in rows[1]
    assert "2099-01-31 00:00:00Z" in rows[1]
    assert "installation 70, acme/widgets" in rows[2]


def test_token_that_is_over_is_listed_as_such(imq: Imq) -> None:
    """Its name stays taken until it is revoked."""
    result = imq("token", "create", "brief", "--operator", "--expires", "1s")
    past = NOW - timedelta(hours=1)

    async def end(tx: Transaction) -> None:
        await tx.connection.execute(update(api_tokens).values(expires_at=past))

    imq.within(end)
    assert imq.within(lambda tx: tx.tokens.find(result.stdout.strip(), NOW)) is None
    assert "(over)" in imq("token", "list").stdout
    assert imq("token", "create", "brief", "--operator").exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--person", "bob"], "GitHub has no account bob."),
        (["--repository", "acme/nothing"], "IMQ does not know acme/nothing"),
        (["--installation", "70", "--repository", "globex/gears"], "IMQ does not know globex/gears"),
    ],
)
def test_token_for_whom_or_what_there_is_not_is_not_made(imq: Imq, arguments: list[str], problem: str) -> None:
    """A sentence says what is missing, and nothing is stored."""
    see(imq)
    result = imq("token", "create", "ci", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert problem in result.stderr
    assert stored(imq) == ()


def test_revoked_token_is_gone_at_once(imq: Imq) -> None:
    """And its name is free again."""
    secret = imq("token", "create", "ci", "--person", "ada").stdout.strip()
    assert imq("token", "revoke", "ci").stdout == "Revoked ci.\n"
    assert imq.within(lambda tx: tx.tokens.find(secret, NOW)) is None
    result = imq("token", "revoke", "ci")
    assert (result.exit_code, result.stderr) == (
        1,
        "Error: No token has the name ci. To list all, run `imq token list`.\n",
    )
    assert imq("token", "create", "ci", "--person", "ada").exit_code == 0
