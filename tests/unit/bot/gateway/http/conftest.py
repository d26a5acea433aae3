"""A gateway on GitHub's double, and its figures."""

import aiohttp
import pytest
from pydantic import SecretStr

from bot.gateway import Gateway
from bot.gateway.http.connection import Connection
from tests.unit.bot.answers import pull_request
from tests.unit.bot.conftest import APP_ID, ManualClock
from tests.unit.bot.gateway.http.pacing_examples import COMMENTS, PULL, Figures
from tests.unit.bot.github_double import GitHubDouble, Says


@pytest.fixture
def figures() -> Figures:
    return Figures()


@pytest.fixture
def gateway(
    session: aiohttp.ClientSession, github: GitHubDouble, pem: str, clock: ManualClock, figures: Figures
) -> Gateway:
    github.on("GET", PULL, Says(pull_request()))
    github.on("POST", COMMENTS, Says({"id": 1}, 201))
    return Gateway(
        Connection(
            session, api_url=github.url, app_id=str(APP_ID), private_key=SecretStr(pem), clock=clock, meter=figures
        )
    )
