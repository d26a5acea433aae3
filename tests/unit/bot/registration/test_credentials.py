"""Credentials in each form that an operator or a platform takes."""

import shlex

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from pydantic import SecretStr

from bot.gateway.http.scopes import OPTIONAL
from bot.registration.manifest import (
    PLATFORMS,
    REASONS,
    Credentials,
    choices,
    chosen_permissions,
    deserialize,
    read_manifest,
    serialize,
    unknown_optional,
)
from bot.registration.step_pages import InstalledPage, step_page
from bot.settings.environment import load_settings

SECRET = "it's a $ecret of 30 characters"  # pragma: allowlist secret


@pytest.fixture
def credentials(pem: str) -> Credentials:
    return Credentials(
        77,
        "https://github.com/apps/imq",
        SecretStr(pem),
        SecretStr(SECRET),
        client_id="Iv23liTest",
        client_secret=SecretStr("shh"),
    )


def test_settings_of_credentials_are_accepted_as_settings(credentials: Credentials) -> None:
    """What is written is what IMQ reads."""
    read = load_settings(credentials.settings())
    assert (read.github_app_id, read.github_private_key) == ("77", credentials.private_key)
    assert read.github_webhook_secret == credentials.webhook_secret


@pytest.mark.parametrize(
    ("platform", "command"), [("heroku", ["heroku", "config:set"]), ("fly", ["fly", "secrets", "set"])]
)
def test_commands_of_platforms_survive_the_shell(credentials: Credentials, platform: str, command: list[str]) -> None:
    """An operator pastes the line into a shell."""
    words = shlex.split(PLATFORMS[platform](credentials.settings()))
    assert words[: len(command)] == command
    assert dict(word.split("=", 1) for word in words[len(command) :]) == credentials.settings()


def test_lines_for_render_are_pasted_into_its_form(credentials: Credentials) -> None:
    """One variable a line."""
    lines = PLATFORMS["render"](credentials.settings()).splitlines()
    assert dict(line.split("=", 1) for line in lines) == credentials.settings()


def test_serialized_credentials_are_read_back(credentials: Credentials) -> None:
    """What is encrypted for the database is whole."""
    assert deserialize(serialize(credentials)) == credentials
    assert SECRET not in repr(credentials)


def test_settings_of_the_operator_count_more_than_stored_ones(credentials: Credentials) -> None:
    """An empty variable counts as not set."""
    given = {"IMQ_GITHUB_CLIENT_SECRET": "renewed", "IMQ_GITHUB_CLIENT_ID": " "}
    complete = credentials.complete(given)
    assert (complete["IMQ_GITHUB_CLIENT_SECRET"], complete["IMQ_GITHUB_CLIENT_ID"]) == ("renewed", "Iv23liTest")
    assert load_settings(complete).github_app_id == "77"


def test_every_permission_has_a_reason_and_only_optional_ones_can_be_left_out() -> None:
    """The form, the manifest and the gateway speak of the same permissions."""
    manifest = read_manifest()
    assert set(REASONS) == set(manifest.permissions) | set(OPTIONAL)
    assert chosen_permissions(manifest, ["contents", "workflows", "invented"]) == {
        "checks": "write",
        "contents": "write",
        "issues": "read",
        "metadata": "read",
        "pull_requests": "write",
        "statuses": "read",
        "workflows": "write",
    }
    assert chosen_permissions(manifest, OPTIONAL) == manifest.permissions | {"members": "read", "workflows": "write"}
    preset = {each.name: each.chosen for each in choices(manifest, ["actions"]) if each.without}
    assert preset == {"actions": False, "administration": True, "issues": True, "members": False, "workflows": False}


def test_permission_that_is_needed_cannot_be_left_out() -> None:
    """The sentence names those that can."""
    assert unknown_optional(["actions"]) is None
    assert "actions, administration, issues, members, workflows" in str(unknown_optional(["actions", "contents"]))


def test_texts_of_a_page_are_escaped() -> None:
    """A name from GitHub, or from a form, is never markup."""
    shown = step_page("code", given='"><b>', wrong=True).text
    assert shown is not None
    assert 'value="&#34;&gt;&lt;b&gt;"' in shown


@pytest.mark.parametrize("delivered", [True, False])
async def test_page_after_the_installation_is_green_after_the_first_webhook(delivered: bool) -> None:
    """Until then it reloads itself."""

    async def any_delivery() -> bool:
        return delivered

    answer: web.Response = await InstalledPage(any_delivery).handle(make_mocked_request("GET", "/setup/installed"))
    assert answer.text is not None
    assert ("notice good" in answer.text) is delivered
    assert ('http-equiv="refresh"' in answer.text) is not delivered
