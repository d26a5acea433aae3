"""What administrators do to a repository: protect branches, set rulesets."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Unpack

from sandbox import rule_settings
from sandbox.rule_settings import ProtectionSettings, RulesetSettings
from sandbox.state import Actor, Protection, Repository, Ruleset

if TYPE_CHECKING:
    from sandbox.github import GitHub


class RulesHandle:
    """The part of a repository's handle that has to do with rules."""

    def __init__(self, github: "GitHub", record: Repository) -> None:
        self.github = github
        self.record = record

    def protect(
        self, branch: str, *, by: str | None = None, webhook: bool = True, **settings: Unpack[ProtectionSettings]
    ) -> Protection:
        """Classic protection of a branch or pattern, replacing what was there."""
        made = rule_settings.protection(self.github, branch, **settings)
        self._ruling(lambda actor: self.github.rules.protect(self.record, made, actor=actor), by, webhook)
        return made

    def unprotect(self, branch: str, *, by: str | None = None, webhook: bool = True) -> None:
        """Remove the protection of a branch or pattern. Raises KeyError when there is none."""
        self._ruling(lambda actor: self.github.rules.unprotect(self.record, branch, actor=actor), by, webhook)

    def disable_protections(self, *, by: str | None = None, webhook: bool = True) -> None:
        """Disable all branch protections at once; they are kept."""
        self._ruling(lambda actor: self.github.rules.enable_protections(self.record, False, actor=actor), by, webhook)

    def enable_protections(self, *, by: str | None = None, webhook: bool = True) -> None:
        """Enable the branch protections that were disabled."""
        self._ruling(lambda actor: self.github.rules.enable_protections(self.record, True, actor=actor), by, webhook)

    def add_ruleset(
        self, name: str, *, by: str | None = None, webhook: bool = True, **settings: Unpack[RulesetSettings]
    ) -> Ruleset:
        """A new ruleset of the repository, or of its owner."""
        made = rule_settings.ruleset(self.github, self.record, name, **settings)
        place = self._home(made)
        self._ruling(lambda actor: self.github.rules.add_ruleset(place, made, actor=actor), by, webhook)
        return made

    def remove_ruleset(self, ruleset: Ruleset, *, by: str | None = None, webhook: bool = True) -> None:
        """Remove a ruleset, the repository's or its organisation's."""
        place = self._home(ruleset)
        self._ruling(lambda actor: self.github.rules.remove_ruleset(place, ruleset, actor=actor), by, webhook)

    def _home(self, ruleset: Ruleset) -> Repository | None:
        return self.record if ruleset.organisation is None else None

    def _ruling(self, change: Callable[[Actor], None], by: str | None, webhook: bool) -> None:
        actor = self._actor(by)
        self.github.require_role(actor, self.record, "admin")
        with self.github.happenings.muted(not webhook):
            change(actor)

    def _actor(self, by: str | None) -> Actor:
        return self.github.actor(by or self.record.owner.login)
