"""Where the gateway refuses writes to repositories in shadow mode."""

import pytest

from bot.gateway.http.client import GRAPHQL, Call
from bot.gateway.http.connection import assert_may_write
from bot.gateway.http.scopes import Purpose, Scope
from queue_engine.domain.errors import Unavailable, WriteRefused
from queue_engine.domain.model import Repository

REPOSITORY = Repository(7, "ada", "engine", 3)
WRITE = Call("PUT", "/repos/{owner}/{repo}/pulls/{pull_number}/merge")
READ = Call("GET", "/repos/{owner}/{repo}")
QUERY = Call("POST", GRAPHQL, body={"query": "\nquery PullRequest { viewer { login } }"})
MUTATION = Call("POST", GRAPHQL, body={"query": "mutation { updateRefs { clientMutationId } }"})


async def in_shadow(_: Repository) -> bool:
    return False


async def in_queue(_: Repository) -> bool:
    return True


@pytest.mark.parametrize("call", [WRITE, MUTATION], ids=["rest", "graphql"])
async def test_write_to_a_repository_in_shadow_mode_is_refused(call: Call) -> None:
    """A mutation is a POST like a query, and a write."""
    with pytest.raises(WriteRefused, match="shadow mode"):
        await assert_may_write(REPOSITORY, call, in_shadow)
    await assert_may_write(REPOSITORY, call, in_queue)


@pytest.mark.parametrize("call", [READ, QUERY], ids=["rest", "graphql"])
async def test_read_of_a_repository_in_shadow_mode_passes(call: Call) -> None:
    """IMQ judges there, so it reads."""
    await assert_may_write(REPOSITORY, call, in_shadow)


@pytest.mark.parametrize("target", [3, Scope(3, 7, Purpose.WRITE)], ids=["installation", "scope"])
async def test_write_that_names_no_repository_is_refused(target: int | Scope) -> None:
    """Its mode would be unknown."""
    with pytest.raises(WriteRefused):
        await assert_may_write(target, WRITE, in_queue)


async def test_write_without_a_known_mode_is_not_sent() -> None:
    """GitHub fails while IMQ reads the configuration: the write waits as for any outage."""

    async def unreadable(_: Repository) -> bool:
        raise Unavailable("500")

    with pytest.raises(Unavailable):
        await assert_may_write(REPOSITORY, WRITE, unreadable)


async def test_call_of_the_app_itself_passes() -> None:
    """A request for a token concerns no repository's content."""
    await assert_may_write(None, Call("POST", "/app/installations/{installation_id}/access_tokens"), in_shadow)
