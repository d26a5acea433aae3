"""Render the pages of the registration. Pure."""

import json
from collections.abc import Sequence
from typing import Any

from aiohttp import web

from bot.registration.markup import Node, form, page, tag
from bot.registration.permissions import PermissionChoice

_REFRESH_SECONDS = 3


def code_page(given: str, *, wrong: bool) -> web.Response:
    """Ask for the code from the log."""
    faults = [_state("red", "This is not the code. It works once; the log has the newest one.")] if wrong else []
    return page(
        "Set up IMQ",
        tag("p", "IMQ has no GitHub App yet. Enter the code that IMQ wrote to its log."),
        *faults,
        form(
            "/setup/code",
            tag("label", "Code", tag("input", type="text", name="code", value=given, autocomplete="off")),
            button="Continue",
        ),
        status=403 if wrong else 200,
    )


def choice_page(name: str, organization: str, permissions: Sequence[PermissionChoice]) -> web.Response:
    """Ask for the account, and which permissions to leave out."""
    needed = [tag("li", tag("code", f"{each.name}: {each.level}"), f" {each.reason}") for each in _needed(permissions)]
    return page(
        "Register the GitHub App",
        tag("p", "IMQ acts on GitHub as an App of your own. You confirm its name and its permissions on GitHub."),
        form(
            "/setup/manifest",
            tag("label", "Name of the App (unique on GitHub)", _text("name", name)),
            tag("label", "Organization (leave empty for your own account)", _text("organization", organization)),
            tag("h2", "Permissions that IMQ needs"),
            tag("ul", *needed),
            tag("h2", "Permissions that you may leave out"),
            *(_checkbox(each) for each in permissions if each.without is not None),
            button="Continue",
        ),
    )


def handover_page(target: str, origin: str, manifest: dict[str, Any]) -> web.Response:
    """Send the manifest to GitHub, which takes it only from a form that a person sends."""
    hook = manifest["hook_attributes"]["url"]
    return page(
        "Create the App on GitHub",
        tag("p", "GitHub asks for the name again, creates the App, and sends you back here."),
        tag("p", "Webhooks will go to ", tag("code", hook), "."),
        tag(
            "p",
            "Be signed in before you continue: ",
            tag("a", "sign in to GitHub", href=f"{origin}/login", target="_blank", rel="noreferrer"),
            " in a new tab. If GitHub asks you only then, it forgets what IMQ sent, and shows an empty form. "
            "Then come back to this page.",
        ),
        form(target, button="Continue to GitHub", hidden={"manifest": json.dumps(manifest)}),
        posts_to=origin,
    )


def registered_page(install_url: str, saved: str) -> web.Response:
    """Report success, and ask to install the App."""
    return page(
        "The App is registered",
        _state("green", saved),
        tag("p", "Now install the App on the repositories that need a queue."),
        tag("a", "Install the App", href=install_url, class_="button", rel="noreferrer"),
    )


def installed_page(*, delivered: bool) -> web.Response:
    """Report whether GitHub's webhooks arrive; until then the page reloads itself."""
    if delivered:
        return page(
            "IMQ is ready",
            _state("green", "The first webhook has arrived: GitHub reaches IMQ."),
            tag(
                "p",
                "Add the label ",
                tag("code", "merge-queue"),
                " to a pull request, or comment ",
                tag("code", "/queue"),
            ),
        )
    return page(
        "Waiting for GitHub",
        _state("waiting", "No webhook has arrived yet. GitHub sends the first one when you install the App."),
        tag("p", "This page reloads by itself."),
        refresh=_REFRESH_SECONDS,
    )


def failure_page(sentence: str, *, status: int, again: str = "/setup") -> web.Response:
    """Report what went wrong, with a link to try again."""
    return page(
        "This did not work",
        _state("red", sentence),
        tag("a", "Try again", href=again, class_="button"),
        status=status,
    )


def _needed(permissions: Sequence[PermissionChoice]) -> list[PermissionChoice]:
    return [each for each in permissions if each.without is None]


def _text(name: str, value: str) -> Node:
    return tag("input", type="text", name=name, value=value, autocomplete="off")


def _checkbox(choice: PermissionChoice) -> Node:
    checked = {"checked": "checked"} if choice.chosen else {}
    return tag(
        "label",
        tag("input", type="checkbox", name="permission", value=choice.name, **checked),
        tag("code", f"{choice.name}: {choice.level}"),
        f" {choice.reason}",
        tag("small", f"Without it: {choice.without}"),
        class_="choice",
    )


def _state(kind: str, sentence: str) -> Node:
    return tag("p", sentence, class_=f"state {kind}", role="status")
