"""The App's manifest: least permissions, the events that IMQ reads, and nothing that GitHub refuses."""

from itertools import combinations
from pathlib import Path

import pytest

from bot.gateway.http.scopes import OPTIONAL
from bot.registration.manifest import _EVENTS_OF, InvalidManifest, chosen_permissions, fill_in, read_manifest
from bot.registration.manifest_flow import addresses_of
from bot.webhooks.normalize import EVENTS
from github_emulator import EVENT_PERMISSIONS, GitHub

MANIFEST = read_manifest()

AUTOMATIC = {"installation", "installation_repositories", "installation_target"}
"""GitHub sends every App its installation events, and refuses a manifest that lists them (GitHub's facts).

Whether GitHub accepts the last one is not known; IMQ reads it where an App was subscribed to it by hand.
"""


def test_manifest_events_are_those_that_imq_reads() -> None:
    """Every event that means something to a queue is subscribed to, and no other one; some come with a permission."""
    assert set(MANIFEST.events) == set(EVENTS) - AUTOMATIC - set(_EVENTS_OF["members"])
    permissions = chosen_permissions(MANIFEST, {"members"})
    filled = fill_in(MANIFEST, addresses_of("https://imq.example.com"), name="IMQ", permissions=permissions)
    assert {"membership", "team"} <= set(filled["default_events"])


def test_manifest_events_about_installations_are_not_listed() -> None:
    """GitHub refuses a manifest that lists them."""
    assert not [event for event in MANIFEST.events if event.startswith("installation")]


def test_manifest_permissions_let_every_event_through() -> None:
    """GitHub sends an event only to an App with a permission for it; `repository` comes with metadata."""
    for event in set(MANIFEST.events) - {"repository"}:
        assert MANIFEST.permissions.keys() & set(EVENT_PERMISSIONS[event]), event


def test_manifest_permissions_are_the_least() -> None:
    """IMQ asks for no more than the queue needs; this test must list each new permission.

    The demo and the Procfile's processes show that they suffice: their App is made from this file.
    """
    assert MANIFEST.permissions == {
        "actions": "write",
        "administration": "read",
        "checks": "write",
        "contents": "write",
        "issues": "write",
        "metadata": "read",
        "pull_requests": "write",
        "statuses": "read",
    }


def test_manifest_has_what_registration_needs() -> None:
    """A private App with a webhook, and example addresses that cannot be real ones."""
    content = MANIFEST.content
    hook = content["hook_attributes"]
    assert isinstance(hook, dict)
    assert content["public"] is False
    assert str(hook["url"]).endswith("/webhook")
    addresses = addresses_of("https://imq.example.com")
    assert (content["name"], content["url"], hook["url"]) == ("IMQ", addresses.home, addresses.webhook)
    assert (content["redirect_url"], content["setup_url"]) == (addresses.redirect, addresses.setup)
    assert content["callback_urls"] == [addresses.callback]


def test_manifest_without_optional_permissions_is_accepted_by_github() -> None:
    """GitHub refuses events without their permission, so these are left out as well."""
    for left_out in [each for size in range(4) for each in combinations(sorted(OPTIONAL), size)]:
        permissions = chosen_permissions(MANIFEST, set(OPTIONAL) - set(left_out))
        filled = fill_in(MANIFEST, addresses_of("https://imq.example.com"), name="IMQ", permissions=permissions)
        github = GitHub()
        assert github.app_manifests.problems(filled) == [], left_out
        remain = {name: each.least for name, each in OPTIONAL.items() if name in left_out and each.least}
        asked = filled["default_permissions"]
        assert {name: asked[name] for name in left_out if name in asked} == remain, left_out
        assert {"pull_request", "push", "check_run"} <= set(filled["default_events"]), left_out
        assert filled["public"] is False, left_out


def test_whole_manifest_filled_in_is_the_file() -> None:
    """Nothing in app.yml is lost on the way to GitHub."""
    addresses = addresses_of("https://imq.example.com")
    assert fill_in(MANIFEST, addresses, name="IMQ", permissions=MANIFEST.permissions) == MANIFEST.content


def test_manifest_is_part_of_the_package() -> None:
    """`imq setup` works where IMQ was installed without its repository."""
    root = Path(__file__).resolve().parents[4]
    assert (root / "bot/registration/app.yml").resolve() == root / "app.yml"
    assert '"app.yml"' in (root / "pyproject.toml").read_text().partition("[tool.setuptools.package-data]")[2]


@pytest.mark.parametrize(
    "text",
    ["", "- checks", "name: IMQ\nname: IMQ", "default_permissions:\n  - checks\ndefault_events:\n  - push\n"],
    ids=["empty", "list", "twice", "shape"],
)
def test_read_manifest_of_another_shape_is_refused(tmp_path: Path, text: str) -> None:
    """A manifest without its sections, or with a key that stands there twice, is not half read."""
    path = tmp_path / "app.yml"
    path.write_text(text)
    with pytest.raises(InvalidManifest):
        read_manifest(path)
