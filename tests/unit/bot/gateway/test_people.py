"""Who people are, and what they may do: as GitHub answers it, for callers of the API and the command line."""

from typing import Any

import pytest

from bot.cli.console import CommandRefused
from bot.cli.github import account_of
from bot.gateway import Gateway
from bot.settings.environment import load_settings
from queue_engine.domain.facts import Actor, Permission
from queue_engine.domain.model import Repository
from tests.unit.bot.conftest import APP_ID
from tests.unit.bot.github_double import GitHubDouble, Says

PERMISSION = "/repositories/5/collaborators/mona/permission"
MONA = {"id": 4711, "login": "Mona", "type": "User"}
MISSING = Says({"message": "Not Found"}, status=404)


@pytest.mark.parametrize(
    ("says", "expected"),
    [
        (
            Says({"permission": "write", "role_name": "maintain", "user": MONA}),
            (Actor(4711, "Mona"), Permission.MAINTAIN),
        ),
        (Says({"permission": "none", "user": MONA}), (Actor(4711, "Mona"), Permission.NONE)),
        (Says({"permission": "admin", "user": None}), (None, Permission.ADMIN)),
        (MISSING, (None, Permission.NONE)),
    ],
    ids=["member", "stranger", "nobody told", "no such login"],
)
async def test_collaborator_is_returned_with_the_id_that_outlives_logins(
    gateway: Gateway, github: GitHubDouble, repository: Repository, says: Says, expected: Any
) -> None:
    """The id shows that a login has another owner; where GitHub names no account, the result has none."""
    github.on("GET", PERMISSION, says)
    assert await gateway.people.collaborator(repository, "mona") == expected


async def test_account_is_found_by_login_and_by_id(gateway: Gateway, github: GitHubDouble) -> None:
    """None for one that is not there, by either."""
    for path in ("/users/mona", "/user/4711", "/users/deploy%5Bbot%5D"):
        github.on("GET", path, Says(MONA))
    for path in ("/users/gone", "/user/4712"):
        github.on("GET", path, MISSING)
    people = gateway.people
    assert await people.by_login(9, "mona") == await people.by_id(9, 4711) == Actor(4711, "Mona")
    assert await people.by_login(9, "deploy[bot]") == Actor(4711, "Mona")
    assert (await people.by_login(9, "gone"), await people.by_id(9, 4712)) == (None, None)


@pytest.mark.parametrize(
    ("installations", "user", "words"),
    [
        (Says([]), Says(MONA), "The App is not installed"),
        (Says([{"id": 9}]), MISSING, "GitHub has no account mona."),
        (Says([{"id": 9}]), Says({"message": "Server Error"}, status=502), "IMQ could not look up mona"),
        (Says({"message": "Bad credentials"}, status=401), Says(MONA), "IMQ could not look up mona"),
    ],
    ids=["installed nowhere", "unknown", "in trouble", "key refused"],
)
async def test_person_unknown_to_github_is_a_sentence_for_the_operator(
    github: GitHubDouble, pem: str, installations: Says, user: Says, words: str
) -> None:
    """No token is made for somebody whose id is not known."""
    github.on("GET", "/app/installations", installations)
    github.on("GET", "/users/mona", user)
    settings = load_settings(
        {
            "IMQ_GITHUB_APP_ID": str(APP_ID),
            "IMQ_GITHUB_PRIVATE_KEY": pem,
            "IMQ_GITHUB_WEBHOOK_SECRET": "it is long and not so simple 4711",
            "IMQ_GITHUB_API_URL": github.url,
        }
    )
    with pytest.raises(CommandRefused, match=words):
        await account_of(settings, "mona")
