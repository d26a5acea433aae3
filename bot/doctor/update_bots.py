"""Check the settings of Renovate and Dependabot that work against a queue. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from bot.doctor.facts import RepositoryFacts
from bot.doctor.finding import Finding

_LINK = "docs/self-hosting.md"
_REBASES = "behind-base-branch"


def update_bot_findings(facts: RepositoryFacts) -> Iterator[Finding]:
    """Yield the settings with which such a bot merges past the queue, or pushes to queued pull requests."""
    name = facts.repository.full_name
    if facts.renovate is not None:
        path, content = facts.renovate
        if _merges(content):
            yield Finding(
                "renovate_merges",
                name,
                f"Renovate merges pull requests itself ({path}: automerge).",
                "They land past the queue, untested on the newest base, and each outdates the run of the queue.",
                "Remove `automerge`, and let Renovate add the queue's label (`addLabels`).",
                _LINK,
            )
        if content.get("rebaseWhen") == _REBASES:
            yield Finding(
                "renovate_rebases",
                name,
                f"Renovate rebases every pull request that is behind ({path}: rebaseWhen).",
                "A push to a queued pull request ends its consent, so it leaves the queue.",
                'Set `"rebaseWhen": "conflicted"`: IMQ brings pull requests up to date itself.',
                _LINK,
            )
    if facts.dependabot is not None and (ecosystems := _rebased(facts.dependabot)):
        yield Finding(
            "dependabot_rebases",
            name,
            f"Dependabot rebases its pull requests ({', '.join(ecosystems)}).",
            "A push to a queued pull request ends its consent, so it leaves the queue.",
            "Set `rebase-strategy: disabled` for each of them in .github/dependabot.yml.",
            _LINK,
        )


def _merges(content: Mapping[str, Any]) -> bool:
    """Whether automerge is on, for all or some packages, by a key or by a preset."""
    presets = content.get("extends")
    names = [str(each).lower() for each in presets] if isinstance(presets, list) else []
    if content.get("automerge") is True or any("automerge" in name and "disabled" not in name for name in names):
        return True
    rules = [rule for rule in content.get("packageRules") or () if isinstance(rule, dict)]
    sections = [value for value in content.values() if isinstance(value, dict)]
    return any(part.get("automerge") is True for part in (*rules, *sections))


def _rebased(content: Mapping[str, Any]) -> list[str]:
    updates = content.get("updates")
    entries = [each for each in updates if isinstance(each, dict)] if isinstance(updates, list) else []
    return [str(each.get("package-ecosystem")) for each in entries if each.get("rebase-strategy") != "disabled"]
