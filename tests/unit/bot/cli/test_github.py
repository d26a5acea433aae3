"""Commands wait for a fresh token, which GitHub's replicas may not know for some seconds."""

from datetime import timedelta

import aiohttp
import pytest
from pydantic import SecretStr

from bot.cli.github import RetryConnection
from bot.gateway import Gateway
from queue_engine.domain.errors import Unavailable
from queue_engine.domain.model import Repository
from tests.unit.bot.answers import pull_request
from tests.unit.bot.conftest import APP_ID, ManualClock
from tests.unit.bot.gateway.http.error_examples import PULL
from tests.unit.bot.github_double import GitHubDouble, Says

REFUSED = Says({"message": "Bad credentials"}, 401)
REPOSITORY = Repository(7, "ada", "engine", 70)


@pytest.mark.parametrize("refusals", [2, 100])
async def test_command_waits_until_github_accepts_the_token_that_it_just_issued(
    session: aiohttp.ClientSession, github: GitHubDouble, pem: str, clock: ManualClock, refusals: int
) -> None:
    """A token that GitHub refuses for half a minute is a failure, and the command ends (P5)."""
    waits: list[float] = []

    async def pause(seconds: float) -> None:
        waits.append(seconds)
        await clock.sleep(timedelta(seconds=seconds))

    github.on("GET", PULL, *[REFUSED] * refusals, Says(pull_request()))
    key = SecretStr(pem)
    connection = RetryConnection(session, api_url=github.url, app_id=str(APP_ID), private_key=key, clock=clock)
    connection.pause = pause
    gateway = Gateway(connection)
    if refusals > 2:
        with pytest.raises(Unavailable):
            await gateway.pull_request(REPOSITORY, 3)
        assert sum(waits) < 60
    else:
        assert (await gateway.pull_request(REPOSITORY, 3)).number == 3
        assert waits == [1.0, 1.0]
