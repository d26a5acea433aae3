"""The App's manifest: least permissions, the events that IMQ reads, and nothing that GitHub refuses.

Covers `bot/demo/manifest.py`.
"""

from pathlib import Path

import pytest

from bot.demo.manifest import InvalidManifest, read_manifest
from bot.webhooks.normalize import _NORMALIZERS
from sandbox.ground.event_permissions import EVENT_PERMISSIONS

MANIFEST = read_manifest()

AUTOMATIC = {"installation", "installation_repositories", "installation_target"}
"""GitHub tells every App of its installations, and refuses a manifest that lists these (GitHub's facts).

Whether it takes the last one is not known; it is read where an App was subscribed to it by hand.
"""


def test_manifest_events_are_those_that_imq_reads() -> None:
    """Every event that means something to a queue is subscribed to, and no other one."""
    assert set(MANIFEST.events) == set(_NORMALIZERS) - AUTOMATIC


def test_manifest_events_about_installations_are_not_listed() -> None:
    """GitHub refuses a manifest that lists them."""
    assert not [event for event in MANIFEST.events if event.startswith("installation")]


def test_manifest_permissions_let_every_event_through() -> None:
    """GitHub sends an event only to an App with a permission for it; `repository` comes with metadata."""
    for event in set(MANIFEST.events) - {"repository"}:
        assert MANIFEST.permissions.keys() & set(EVENT_PERMISSIONS[event]), event


def test_manifest_permissions_are_the_least() -> None:
    """Nobody is asked for more than the queue needs; a new permission must be listed here as needed.

    That they suffice is shown by the demo and by the Procfile's processes, whose App is made from this file.
    """
    assert MANIFEST.permissions == {
        "actions": "write",
        "administration": "read",
        "checks": "write",
        "contents": "write",
        "issues": "read",
        "metadata": "read",
        "pull_requests": "write",
        "statuses": "read",
    }


def test_manifest_has_what_registration_needs() -> None:
    """A private App with a webhook, and addresses that nobody mistakes for their own."""
    content = MANIFEST.content
    hook = content["hook_attributes"]
    assert isinstance(hook, dict)
    assert content["public"] is False
    assert str(hook["url"]).endswith("/webhook")
    assert {content["name"], content["url"], content["redirect_url"]} <= {
        "IMQ",
        "https://imq.example.com",
        "https://imq.example.com/setup",
    }


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
