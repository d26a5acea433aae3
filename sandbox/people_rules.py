"""What administrators do to a repository: protect branches, set rulesets."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from sandbox.state import Actor, Protection, Repository, RequiredCheck, ReviewRule, Ruleset

if TYPE_CHECKING:
    from sandbox.github import GitHub

Required = str | tuple[str, int | None]
"""A required check: its name, or its name and the id of the app that must report it."""


class RulesHandle:
    """The part of a repository's handle that has to do with rules."""

    def __init__(self, github: "GitHub", record: Repository) -> None:
        self.github = github
        self.record = record

    def protect(
        self,
        branch: str,
        *,
        required_checks: Iterable[Required] = (),
        strict: bool = False,
        required_approvals: int = 0,
        reviews: ReviewRule | None = None,
        enforce_admins: bool = False,
        required_linear_history: bool = False,
        required_conversation_resolution: bool = False,
        restrict_pushes: Sequence[str] | None = None,
        lock: bool = False,
        signatures: bool = False,
        deployments: Sequence[str] = (),
        allow_force_pushes: bool = False,
        allow_deletions: bool = False,
        by: str | None = None,
        webhook: bool = True,
    ) -> Protection:
        """Classic protection of a branch or pattern, replacing what was there.

        `reviews` says all of reviews, `required_approvals` the usual part of it; `deployments` are environments.
        """
        now = self.github.clock.now()
        protection = Protection(
            id=self.github.state.next_id("protection"),
            pattern=branch,
            created_at=now,
            updated_at=now,
            required_checks=_required(required_checks),
            strict=strict,
            reviews=_reviews(required_approvals, reviews),
            enforce_admins=enforce_admins,
            required_linear_history=required_linear_history,
            required_conversation_resolution=required_conversation_resolution,
            restrict_pushes=None if restrict_pushes is None else list(restrict_pushes),
            lock=lock,
            signatures=signatures,
            deployments=list(deployments),
            allow_force_pushes=allow_force_pushes,
            allow_deletions=allow_deletions,
        )
        self._ruling(lambda actor: self.github.rules.protect(self.record, protection, actor=actor), by, webhook)
        return protection

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
        self,
        name: str,
        *,
        branches: Sequence[str] = ("~DEFAULT_BRANCH",),
        excluded: Sequence[str] = (),
        required_checks: Iterable[Required] = (),
        strict: bool = False,
        checks_on_create: bool = True,
        required_approvals: int = 0,
        reviews: ReviewRule | None = None,
        linear_history: bool = False,
        merge_queue: bool = False,
        non_fast_forward: bool = False,
        update: bool = False,
        signatures: bool = False,
        deployments: Sequence[str] = (),
        workflows: Sequence[str] = (),
        creation: bool = False,
        deletion: bool = False,
        branch_name: str = "",
        code_scanning: Sequence[str] = (),
        bypass: Sequence[str] | Mapping[str, str] = (),
        enforcement: str = "active",
        organisation: bool = False,
        repositories: Sequence[str] = ("*",),
        by: str | None = None,
        webhook: bool = True,
    ) -> Ruleset:
        """A ruleset for branches named by patterns, `~DEFAULT_BRANCH` or `~ALL`.

        `bypass` are logins and app slugs that may bypass it: each with its mode (always, pull_request, exempt), or a
        list of those who always may. With `organisation` it is the owner's, and holds in all of its `repositories`
        (name patterns).
        """
        now = self.github.clock.now()
        ruleset = Ruleset(
            id=self.github.state.next_id("ruleset"),
            name=name,
            branches=list(branches),
            created_at=now,
            updated_at=now,
            excluded=list(excluded),
            enforcement=enforcement,
            required_checks=_required(required_checks),
            strict=strict,
            checks_on_create=checks_on_create,
            reviews=_reviews(required_approvals, reviews),
            linear_history=linear_history,
            merge_queue=merge_queue,
            non_fast_forward=non_fast_forward,
            update=update,
            signatures=signatures,
            deployments=list(deployments),
            workflows=list(workflows),
            creation=creation,
            deletion=deletion,
            branch_name=branch_name,
            code_scanning=list(code_scanning),
            bypass=dict(bypass) if isinstance(bypass, Mapping) else dict.fromkeys(bypass, "always"),
            organisation=self.record.owner if organisation else None,
            repositories=list(repositories),
        )
        place = self._home(ruleset)
        self._ruling(lambda actor: self.github.rules.add_ruleset(place, ruleset, actor=actor), by, webhook)
        return ruleset

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


def _required(checks: Iterable[Required]) -> list[RequiredCheck]:
    return [RequiredCheck(check) if isinstance(check, str) else RequiredCheck(*check) for check in checks]


def _reviews(approvals: int, reviews: ReviewRule | None) -> ReviewRule | None:
    return reviews or (ReviewRule(approvals) if approvals else None)
