"""What administrators do to a repository: protect branches, set rulesets."""

from collections.abc import Callable
from typing import Unpack

from github_emulator.domain.domain import Domain
from github_emulator.facade import rule_settings
from github_emulator.facade.rule_settings import ProtectionSettings, RulesetSettings
from github_emulator.state import Actor, Protection, Repository, Ruleset


class RulesHandle:
    """The part of a repository's handle that has to do with rules."""

    def __init__(self, domain: Domain, record: Repository) -> None:
        self.domain = domain
        self.record = record

    def protect(
        self, branch: str, *, by: str | None = None, webhook: bool = True, **settings: Unpack[ProtectionSettings]
    ) -> Protection:
        """Classic protection of a branch or pattern, replacing what was there."""
        made = rule_settings.protection(self.domain, branch, **settings)
        self._ruling(lambda actor: self.domain.rules.protect(self.record, made, actor=actor), by, webhook)
        return made

    def unprotect(self, branch: str, *, by: str | None = None, webhook: bool = True) -> None:
        """Remove the protection of a branch or pattern. Raises KeyError when there is none."""
        self._ruling(lambda actor: self.domain.rules.unprotect(self.record, branch, actor=actor), by, webhook)

    def disable_protections(self, *, by: str | None = None, webhook: bool = True) -> None:
        """Disable all branch protections at once; they are kept."""
        self._ruling(lambda actor: self.domain.rules.enable_protections(self.record, False, actor=actor), by, webhook)

    def enable_protections(self, *, by: str | None = None, webhook: bool = True) -> None:
        """Enable the branch protections that were disabled."""
        self._ruling(lambda actor: self.domain.rules.enable_protections(self.record, True, actor=actor), by, webhook)

    def add_ruleset(
        self, name: str, *, by: str | None = None, webhook: bool = True, **settings: Unpack[RulesetSettings]
    ) -> Ruleset:
        """A new ruleset of the repository, or of its owner."""
        made = rule_settings.ruleset(self.domain, self.record, name, **settings)
        place = self._home(made)
        self._ruling(lambda actor: self.domain.rules.add_ruleset(place, made, actor=actor), by, webhook)
        return made

    def remove_ruleset(self, ruleset: Ruleset, *, by: str | None = None, webhook: bool = True) -> None:
        """Remove a ruleset, the repository's or its organisation's."""
        place = self._home(ruleset)
        self._ruling(lambda actor: self.domain.rules.remove_ruleset(place, ruleset, actor=actor), by, webhook)

    def _home(self, ruleset: Ruleset) -> Repository | None:
        return self.record if ruleset.organisation is None else None

    def _ruling(self, change: Callable[[Actor], None], by: str | None, webhook: bool) -> None:
        actor = self._actor(by)
        self.domain.accounts.require_role(actor, self.record, "admin")
        with self.domain.context.events.muted(not webhook):
            change(actor)

    def _actor(self, by: str | None) -> Actor:
        return self.domain.accounts.actor(by or self.record.owner.login)
