"""Installation tokens that processes share through the database."""

from datetime import timedelta

import aiohttp
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from pydantic import SecretStr
from sqlalchemy import select

from bot.gateway import Gateway
from bot.gateway.http.connection import Connection
from bot.gateway.http.scopes import Purpose, Scope
from bot.gateway.http.tokens import StoredTokens, Token, Tokens
from queue_engine.domain.model import Repository
from queue_engine.store import Store
from queue_engine.store.tables import installation_tokens
from tests.unit.bot.answers import pull_request
from tests.unit.bot.conftest import APP_ID, ManualClock
from tests.unit.bot.github_double import GitHubDouble, Says

SCOPE = Scope(9, None, Purpose.LIST)
MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)
ALL, LESS = {"issues": "read", "pull_requests": "read"}, {"issues": "read"}


class Processes:
    """Processes on one database, of which each asks GitHub for tokens `t1`, `t2`, ... where it finds none."""

    def __init__(self, clock: ManualClock, stored: StoredTokens) -> None:
        self.clock, self.stored, self.made = clock, stored, 0
        self.granted = ALL

    def start(self) -> Tokens:
        return Tokens(
            self._fetch, self.clock, stored=self.stored, fits=lambda _, token: token.permissions == self.granted
        )

    async def _fetch(self, _scope: Scope) -> Token:
        self.made += 1
        now = self.clock.now()
        return Token(SecretStr(f"token-{self.made}"), now + 60 * MINUTE, issued_at=now, permissions=self.granted)


@pytest.fixture
def processes(clock: ManualClock, store: Store, pem: str) -> Processes:
    return Processes(clock, StoredTokens(store, SecretStr(pem)))


async def used(tokens: Tokens) -> str:
    return (await tokens.get(SCOPE)).value.get_secret_value()


async def test_process_that_starts_uses_the_token_that_another_one_fetched(
    processes: Processes, clock: ManualClock
) -> None:
    """P7: restarts cost no tokens. The token is as new as it was: a refusal in its first seconds may be a replica's."""
    assert await used(processes.start()) == "token-1"
    clock.instant += 19 * SECOND
    second = processes.start()
    assert (await used(second), processes.made) == ("token-1", 1)
    assert second.is_new(SCOPE, SecretStr("token-1"))
    clock.instant += SECOND
    assert not second.is_new(SCOPE, SecretStr("token-1"))


async def test_token_that_expires_within_minutes_is_not_taken_over(processes: Processes, clock: ManualClock) -> None:
    """A process that needs one for the next half hour takes over none that would be renewed again at once."""
    first, second = processes.start(), processes.start()
    assert (await used(first), await used(second)) == ("token-1", "token-1")
    clock.instant += 36 * MINUTE
    await first.prepare(SCOPE)
    await second.prepare(SCOPE)
    clock.instant += MINUTE
    assert (await used(first), await used(second), processes.made) == ("token-2", "token-2", 2)
    clock.instant += 50 * MINUTE
    assert await used(processes.start()) == "token-3"


async def test_refused_token_is_deleted_for_all_and_no_newer_one_with_it(processes: Processes) -> None:
    """Otherwise GitHub would refuse the token for each process that starts."""
    first, second = processes.start(), processes.start()
    assert (await used(first), await used(second)) == ("token-1", "token-1")
    await first.forget(SCOPE, SecretStr("token-1"))
    assert await used(first) == "token-2"
    await second.forget(SCOPE, SecretStr("token-1"))
    assert (await used(second), processes.made) == ("token-2", 2)


async def test_token_of_other_permissions_is_not_taken_over(processes: Processes, clock: ManualClock) -> None:
    """Neither one that was made before the installation's permissions changed, nor one that a late process made."""
    first, late = processes.start(), processes.start()
    assert await used(first) == "token-1"
    clock.instant += SECOND
    first.renew(SCOPE.installation_id)
    assert await used(first) == "token-2"
    processes.granted = LESS
    assert await used(late) == "token-3"


async def test_stored_token_is_encrypted_and_opens_with_the_same_private_key_and_scope_only(
    processes: Processes, clock: ManualClock, store: Store
) -> None:
    """A copy of the database opens nothing; a row that somebody moved to another scope does not count there."""
    await used(processes.start())
    async with store.transaction() as tx:
        (row,) = (await tx.connection.execute(select(installation_tokens))).all()
        assert "token-1" not in row.sealed
        await tx.connection.execute(installation_tokens.update().values(purpose=Purpose.SHARED.value))
    assert await processes.stored.load(Scope(9, None, Purpose.SHARED)) is None
    await used(processes.start())
    another_key = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    assert await processes.stored.load(SCOPE) is not None
    assert await StoredTokens(store, SecretStr(another_key.decode())).load(SCOPE) is None


@pytest.mark.parametrize(("granted", "tokens"), [(None, 1), ("read", 2)])
async def test_gateway_that_starts_again_asks_for_no_token_unless_permissions_changed(
    session: aiohttp.ClientSession,
    github: GitHubDouble,
    pem: str,
    clock: ManualClock,
    store: Store,
    repository: Repository,
    granted: str | None,
    tokens: int,
) -> None:
    """Of two gateways on one database the second takes over the token of the first, if it is for what is granted."""
    github.on("GET", "/repos/ada/engine/pulls/3", Says(pull_request()))
    github.on("GET", "/app/installations", Says([{"id": 9, "permissions": {"pull_requests": granted}}]))

    def start() -> Gateway:
        stored = StoredTokens(store, SecretStr(pem))
        key = SecretStr(pem)
        return Gateway(
            Connection(
                session, api_url=github.url, app_id=str(APP_ID), private_key=key, clock=clock, stored_tokens=stored
            )
        )

    await start().pull_request(repository, 3)
    second = start()
    if granted is not None:
        await second.installations()
    await second.pull_request(repository, 3)
    assert len(github.asked_for("POST", "/app/installations/9/access_tokens")) == tokens
