"""A scripted GitHub on a real socket, a clock moved by hand, and keys made for the run."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import aiohttp
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from pydantic import SecretStr

from bot.gateway import Gateway
from bot.gateway.http.connection import Connection
from queue_engine.domain.model import Repository
from tests.unit.bot.github_double import GitHubDouble

APP_ID = 77


class ManualClock:
    """A clock that stays at one instant until a test moves it."""

    def __init__(self) -> None:
        self.instant = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

    def now(self) -> datetime:
        return self.instant

    async def sleep(self, duration: timedelta) -> None:
        self.instant += duration


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(scope="session")
def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture(scope="session")
def pem(rsa_key: rsa.RSAPrivateKey) -> str:
    return rsa_key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    ).decode()


@pytest.fixture
async def github(clock: ManualClock) -> AsyncIterator[GitHubDouble]:
    double = GitHubDouble(clock)
    await double.start()
    yield double
    await double.stop()


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as opened:
        yield opened


@pytest.fixture
def gateway(session: aiohttp.ClientSession, github: GitHubDouble, pem: str, clock: ManualClock) -> Gateway:
    return Gateway(Connection(session, api_url=github.url, app_id=str(APP_ID), private_key=SecretStr(pem), clock=clock))


@pytest.fixture
def repository() -> Repository:
    return Repository(id=5, owner="ada", name="engine", installation_id=9)
