"""Check the settings of Renovate and Dependabot that work against a queue. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from bot.api.finding import Finding
from bot.doctor.facts import RepositoryFacts

_LINK = "docs/configuration.md#dependabot-and-renovate"
_REBASES = "behind-base-branch"
_REBASES_PRESET = "rebasestaleprs"
_HOW = frozenset({"automergedisabled", "automergebranch", "automergepr", "automergerequireallstatuschecks"})
"""Presets of Renovate that choose how to automerge, and do not enable it (its `presets/internal/default`)."""


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
                "Remove `automerge`, let Renovate add the queue's label (`addLabels`), and name `renovate[bot]` under "
                "`who_may_queue.people` in .github/imq.yml.",
                _LINK,
            )
        up_to_date = facts.rules is not None and facts.rules.up_to_date
        why = _rebase_cause(content, facts.branch, up_to_date=up_to_date)
        if why is not None and not _is_named(facts, "renovate"):
            yield Finding(
                "renovate_rebases",
                name,
                f"Renovate rebases every pull request that is behind ({path}: {why}).",
                "A push to a queued pull request ends its consent, so it leaves the queue.",
                'Set `"rebaseWhen": "conflicted"`: IMQ brings pull requests up to date itself. Or name the bot under '
                "`on_push.requeue_for`.",
                _LINK,
            )
    is_named = _is_named(facts, "dependabot")
    if facts.dependabot is not None and not is_named and (ecosystems := _rebased(facts.dependabot)):
        yield Finding(
            "dependabot_rebases",
            name,
            f"Dependabot rebases its pull requests ({', '.join(ecosystems)}).",
            "A push to a queued pull request ends its consent, so it leaves the queue.",
            "Name `dependabot[bot]` under `on_push.requeue_for` in .github/imq.yml, or set `rebase-strategy: disabled` "
            "for each of them in .github/dependabot.yml.",
            _LINK,
        )


def _is_named(facts: RepositoryFacts, bot: str) -> bool:
    """Whether the configuration names such a bot; Renovate may run under a name of the operator's choice."""
    return any(bot in login for login in facts.policy.on_push.requeue_for)


def _merges(content: Mapping[str, Any]) -> bool:
    """Whether automerge is on, for all or some packages, by a key or by a preset."""
    if any("automerge" in preset and preset not in _HOW for preset in _presets(content)):
        return True
    return any(part.get("automerge") is True for part in _parts(content))


def _rebase_cause(content: Mapping[str, Any], branch: str, *, up_to_date: bool) -> str | None:
    """Return why Renovate rebases whatever is behind its base; None if it does not, or a shared preset may decide.

    Its default `auto` does so where the branch requires up-to-date heads (Renovate's "Updating and rebasing branches").
    """
    if any(part.get("rebaseWhen") == _REBASES for part in _parts(content)):
        return "rebaseWhen"
    wanted = content.get("rebaseWhen")
    if wanted is None and _REBASES_PRESET in _presets(content):
        return ":rebaseStalePrs"
    is_shared = any(">" in preset for preset in _presets(content))
    if up_to_date and (wanted == "auto" or (wanted is None and not is_shared)):
        return f"rebaseWhen is auto, and {branch} requires branches to be up to date"
    return None


def _presets(content: Mapping[str, Any]) -> list[str]:
    """Return the names of the presets in lower case, those of Renovate itself without their group."""
    presets = content.get("extends")
    names = [str(each).lower() for each in presets] if isinstance(presets, list) else []
    return [name if ">" in name else name.rpartition(":")[2] for name in names]


def _parts(content: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the whole configuration, its rules for packages, and its sections."""
    rules = [rule for rule in content.get("packageRules") or () if isinstance(rule, dict)]
    return [content, *rules, *(value for value in content.values() if isinstance(value, dict))]


def _rebased(content: Mapping[str, Any]) -> list[str]:
    updates = content.get("updates")
    entries = [each for each in updates if isinstance(each, dict)] if isinstance(updates, list) else []
    return [str(each.get("package-ecosystem")) for each in entries if each.get("rebase-strategy") != "disabled"]
