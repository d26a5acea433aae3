"""Explain each permission of the App, and choose those to ask for. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from bot.gateway.http.scopes import OPTIONAL
from bot.registration.manifest import Manifest

REASONS: Mapping[str, str] = {
    "actions": "To rerun failed jobs of GitHub Actions once, and to cancel runs that are outdated.",
    "administration": "To read which rules a branch has, and to learn when they change. IMQ changes no setting.",
    "checks": "To read the required check runs, and to write the check run IMQ.",
    "contents": "To merge pull requests, and to compare a branch with its base.",
    "issues": "To find pull requests by their label, to receive commands, and to create the label. GitHub lists pull "
    "requests as issues.",
    "members": "To read who is in the teams that may queue. Only organisations have teams.",
    "metadata": "To read who may merge. Every GitHub App has this permission.",
    "pull_requests": "To update branches, to merge, to write the one comment, and to set and remove the label.",
    "statuses": "To read required checks that are reported as commit statuses.",
    "workflows": "To merge pull requests that change .github/workflows.",
}


@dataclass(frozen=True, slots=True)
class PermissionChoice:
    """A permission as the form shows it."""

    name: str
    level: str
    reason: str
    without: str | None
    """What does not work without it; None if IMQ needs it."""
    chosen: bool


def choices(manifest: Manifest, without: Collection[str] = ()) -> list[PermissionChoice]:
    """Return all permissions, those that IMQ needs first. `without` are optional ones that are not chosen at first."""
    levels = manifest.permissions | {name: each.level for name, each in OPTIONAL.items()}
    found = [
        PermissionChoice(
            name,
            level,
            REASONS[name],
            OPTIONAL[name].without if name in OPTIONAL else None,
            name in manifest.permissions and name not in without,
        )
        for name, level in levels.items()
    ]
    return sorted(found, key=lambda each: each.without is not None)


def chosen_permissions(manifest: Manifest, optional: Collection[str]) -> dict[str, str]:
    """Return the permissions to ask for: what IMQ needs of each, and the chosen ones of the others."""
    levels = {
        each.name: each.level if each.without is None or each.name in optional else OPTIONAL[each.name].least
        for each in choices(manifest)
    }
    return {name: level for name, level in levels.items() if level}


def unknown_optional(names: Collection[str]) -> str | None:
    """Return a sentence about the first name that is no optional permission; None if all are."""
    for name in names:
        if name not in OPTIONAL:
            return f"{name} is no permission that IMQ can do without; those are {', '.join(sorted(OPTIONAL))}."
    return None
