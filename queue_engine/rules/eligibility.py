"""Judge whether a labeled pull request may join its queue. Pure, over plain data."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from queue_engine.config.model import Policy
from queue_engine.config.patterns import blocked_title, branch_matches
from queue_engine.domain.facts import (
    BranchRules,
    FailingCheck,
    Permission,
    PullRequest,
    RequiredLanding,
    Review,
    ReviewOutcome,
    StackPosition,
    unreported_check,
)
from queue_engine.domain.model import Repository, UnmetRequirement
from queue_engine.domain.policy import GithubMergePolicy, NotReadyPolicy, has_label
from queue_engine.domain.reasons import Reason
from queue_engine.rules.checks import required_checks
from queue_engine.rules.landing_order import ended_landing, unmet_landings
from queue_engine.rules.merge_method import merge_method, needs_signed_commits, no_method
from queue_engine.rules.reviews import missing_approval

_STRENGTH = tuple(Permission)

UNKNOWN_HEAD = "unseen"
"""In place of the labeled head, where the label's webhook did not arrive; it equals no pull request's head."""

_BY_ITSELF = frozenset(
    {
        Reason.DRAFT,
        Reason.STACKED_ABOVE,
        Reason.STACK_LANDED,
        Reason.DEPENDENCY_OPEN,
        Reason.DEPENDENCY_HIDDEN,
        Reason.SET_WAITING,
        Reason.BLOCKED_BY_LABEL,
        Reason.BLOCKED_BY_TITLE,
        Reason.BLOCKED_BY_FILES,
        Reason.LABEL_MISSING,
        Reason.REVIEW_REQUESTED,
    }
)
"""What a pull request may lack whatever the rules of its base branch demand."""

_NAMED, _SHORT = 5, 7
"""How many commits a refusal names, and how many characters of each."""


@dataclass(frozen=True, slots=True)
class RequiredFacts:
    """The rules of a base branch, with the facts that show whether the pull request meets them."""

    rules: BranchRules
    reviews: Iterable[Review] | None = None
    """None where reviews cannot matter."""
    unsigned: Sequence[str] = ()
    """Commits of the pull request without a valid signature; read only where rules require signatures."""
    decision: ReviewOutcome | None = None
    open_conversations: Sequence[str] | None = None
    """The conversations that are not resolved, as far as GitHub shows them."""
    stack: StackPosition | None = None
    """The place above another pull request, if it has one."""
    code_owners: Sequence[str] = ()
    """The code owners whose review GitHub requests."""
    failing: Sequence[FailingCheck] = ()
    """The required checks that have failed on its own head."""
    absent: UnmetRequirement | None = None
    """While it waits for them: the required checks that have not reported on its own head."""
    files: frozenset[str] | None = None
    """The files that it changes; None where GitHub does not list all, or the configuration asks for none."""
    review_requests: Sequence[str] = ()
    landings: Sequence[RequiredLanding] = ()
    """The pull requests that have to land before it."""


@dataclass(frozen=True, slots=True)
class Admit:
    """Admit the pull request."""


@dataclass(frozen=True, slots=True)
class Ignore:
    """Do nothing, and announce nothing."""


@dataclass(frozen=True, slots=True)
class Reject:
    """Reject the pull request for this reason; `detail` names the object, and may contain text by other people."""

    reason: Reason
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class NotReady:
    """Let the pull request wait outside the queue until it has what it lacks, the most important first."""

    unmet: tuple[UnmetRequirement, ...]


Answer = Admit | NotReady | Ignore | Reject


@dataclass(frozen=True, slots=True)
class Consent:
    """The request of a person to queue a pull request: who, with which permission, for which head and base branch.

    Consent is for this head and this base branch only (P4): authors may change the base branch without any permission.
    """

    by: str
    permission: Permission
    head_sha: str
    base_branch: str


def check_eligibility(
    pull: PullRequest,
    consent: Consent,
    requirements: RequiredFacts,
    *,
    repository: Repository,
    policy: Policy,
) -> Answer:
    """Judge whether a pull request may join its queue; closed ones, and those without the label, are ignored."""
    if not pull.open or not policy.has_trigger_label(pull.labels):
        return Ignore()
    refusal = (
        _reject_person(policy, consent)
        or _reject_order(requirements, policy)
        or _reject_change(pull, consent, policy)
        or (None if waits(policy) else _stacked(requirements))
        or unmet_requirement(pull, repository, requirements, policy)
    )
    if refusal is not None:
        return refusal
    unmet = unmet_so_far(pull, requirements, policy)
    return NotReady(unmet) if unmet and waits(policy) else Admit()


def waits(policy: Policy) -> bool:
    """Whether a pull request may wait outside the queue for what it lacks."""
    return policy.when_not_ready is NotReadyPolicy.WAIT


def unmet_so_far(pull: PullRequest, requirements: RequiredFacts, policy: Policy) -> tuple[UnmetRequirement, ...]:
    """Return what the pull request lacks that may still come by itself, the most important first."""
    stacked = _stacked(requirements)
    found = [] if stacked is None else [UnmetRequirement(stacked.reason, stacked.detail)]
    found += unmet_landings(requirements.landings)
    if pull.draft:
        found.append(UnmetRequirement(Reason.DRAFT))
    if (blocked := blocked_by_config(pull, policy)) is not None:
        found.append(UnmetRequirement(blocked.reason, blocked.detail))
    found += [UnmetRequirement(each.reason, each.detail) for each in _unmet_at_entrance(requirements, policy)]
    if (review := _missing_review(requirements)) is not None:
        found.append(UnmetRequirement(review.reason, review.detail or None))
    if (conversation := _open_conversation(requirements)) is not None:
        found.append(UnmetRequirement(conversation.reason))
    if requirements.failing:
        found.append(UnmetRequirement(Reason.CHECKS_FAILED, failing=tuple(requirements.failing)))
    if requirements.absent is not None:
        found.append(requirements.absent)
    return tuple(found)


def unmet_by_rules(pull: PullRequest, requirements: RequiredFacts, policy: Policy) -> bool:
    """Whether the pull request lacks anything that rules demand, which may be outdated in a cache."""
    return any(each.reason not in _BY_ITSELF for each in unmet_so_far(pull, requirements, policy))


def may_queue(policy: Policy, login: str, permission: Permission) -> Reason | None:
    """Return None if this person may queue on this branch, else the reason to report."""
    enough = _STRENGTH.index(permission) >= _STRENGTH.index(policy.who_may_queue.permission)
    if enough or login.casefold() in policy.who_may_queue.people | policy.team_members:
        return None
    # GitHub itself lets people with write permission merge; any other bound is the repository's own.
    return (
        Reason.LABEL_WITHOUT_RIGHT
        if policy.who_may_queue.permission is Permission.WRITE
        else Reason.NOT_ALLOWED_TO_QUEUE
    )


def blocked_by_config(pull: PullRequest, policy: Policy) -> Reject | None:
    """Reject a pull request whose labels or title the configuration blocks, or that lacks a label, in any state."""
    for label in sorted(pull.labels):
        if has_label([label], policy.blocking.labels):
            return Reject(Reason.BLOCKED_BY_LABEL, label)
    if (pattern := blocked_title(policy.blocking.titles, pull.title)) is not None:
        return Reject(Reason.BLOCKED_BY_TITLE, pattern)
    missing = sorted(label for label in policy.require.labels if not has_label(pull.labels, [label]))
    return Reject(Reason.LABEL_MISSING, ", ".join(missing)) if missing else None


def refused_by_config(pull: PullRequest, policy: Policy) -> Reject | None:
    """Reject a pull request for what cannot still come: its author, or that GitHub merges it by itself."""
    author, only = pull.author.casefold(), policy.require.authors
    if author in policy.blocking.authors or (only and author not in only):
        return Reject(Reason.BLOCKED_BY_AUTHOR, pull.author)
    refused = pull.auto_merge and policy.auto_merge is GithubMergePolicy.REFUSE
    return Reject(Reason.AUTO_MERGE_ENABLED) if refused else None


def reads_files(policy: Policy) -> bool:
    """Whether it matters which files a pull request changes."""
    return bool(policy.require.files or policy.blocking.files)


def _unmet_at_entrance(requirements: RequiredFacts, policy: Policy) -> Iterator[Reject]:
    """Yield what keeps a pull request out by its files and requested reviews: an entry in the queue may have both."""
    files, wanted, blocked = requirements.files, policy.require.files, policy.blocking.files
    if reads_files(policy) and files is None:
        yield Reject(Reason.BLOCKED_BY_FILES, "GitHub does not list all files that it changes")
    for file in sorted(files or ()):
        if any(branch_matches(each, file) for each in blocked) or not any(
            branch_matches(each, file) for each in wanted or ("**",)
        ):
            yield Reject(Reason.BLOCKED_BY_FILES, file)
            break
    if policy.require.reviews_done and requirements.review_requests:
        yield Reject(Reason.REVIEW_REQUESTED, ", ".join(requirements.review_requests))


def disables_auto_merge(pull: PullRequest, policy: Policy) -> bool:
    """Whether IMQ disables the auto-merge of this pull request."""
    return pull.open and pull.auto_merge and policy.auto_merge.disables


def _reject_person(policy: Policy, consent: Consent) -> Reject | None:
    if consent.head_sha == UNKNOWN_HEAD:
        return None  # The request is rejected in any case, and IMQ may have set the label itself, after a command.
    reason = may_queue(policy, consent.by, consent.permission)
    return None if reason is None else Reject(reason, unread_teams(policy))


def unread_teams(policy: Policy) -> str | None:
    """Return which teams IMQ cannot read: a person who may not queue may be in one of them."""
    return "; ".join(policy.unread_teams) or None


def _reject_order(requirements: RequiredFacts, policy: Policy) -> Reject | None:
    """Reject a pull request that names one which never lands before it; where nothing waits, any that is open."""
    if (ended := ended_landing(requirements.landings)) is not None:
        return Reject(*ended)
    first = next(iter(unmet_landings(requirements.landings)), None)
    return None if first is None or waits(policy) else Reject(first.reason, first.detail)


def _reject_change(pull: PullRequest, consent: Consent, policy: Policy) -> Reject | None:
    if pull.base_branch != consent.base_branch:
        return Reject(Reason.BASE_CHANGED)
    if not policy.enabled:
        return Reject(Reason.BRANCH_NOT_SERVED)
    if pull.draft and not waits(policy):
        return Reject(Reason.DRAFT)
    if pull.head_repository is None:
        return Reject(Reason.FORK_DELETED)
    if consent.head_sha == UNKNOWN_HEAD:
        return Reject(Reason.LABEL_NOT_RECEIVED)
    if pull.head_sha != consent.head_sha:
        return Reject(Reason.HEAD_CHANGED)
    blocked = None if waits(policy) else blocked_by_config(pull, policy)
    if (refused := blocked or refused_by_config(pull, policy)) is not None:
        return refused
    return Reject(Reason.CONFLICT) if pull.mergeable is False else None


def _stacked(requirements: RequiredFacts) -> Reject | None:
    """Reject a pull request above another one: it is never queued for the branch of that one."""
    if (place := requirements.stack) is None:
        return None
    reason = Reason.STACK_LANDED if place.landed else Reason.STACKED_ABOVE
    return Reject(reason, None if place.below is None else f"#{place.below}, of the branch {place.own_base}")


def unmet_requirement(
    pull: PullRequest, repository: Repository, requirements: RequiredFacts, policy: Policy
) -> Reject | None:
    """Reject a pull request that breaks a rule of its base branch, as far as facts before the merge show it."""
    return (
        _reject_rules(pull, repository, requirements.rules, policy)
        or _reject_signatures(pull, requirements, policy)
        or (None if waits(policy) else _lacking(requirements, policy))
    )


def _lacking(requirements: RequiredFacts, policy: Policy) -> Reject | None:
    at_entrance = next(_unmet_at_entrance(requirements, policy), None)
    return at_entrance or _missing_review(requirements) or _open_conversation(requirements)


def _reject_rules(pull: PullRequest, repository: Repository, rules: BranchRules, policy: Policy) -> Reject | None:
    if rules.native_queue:
        return Reject(Reason.NATIVE_QUEUE_REQUIRED)
    if rules.locked:
        return Reject(Reason.BRANCH_LOCKED)
    if rules.push_restricted:
        return Reject(Reason.PUSH_RESTRICTED)
    if rules.bypassed:
        return Reject(Reason.RULESET_BYPASSED, "; ".join(rules.bypassed))
    if (own := unreported_check(required_checks(rules, policy), policy.own_app)) is not None:
        return Reject(Reason.OWN_CHECK_REQUIRED, own)
    if merge_method(pull, rules, policy) is None:
        return Reject(*no_method(pull, rules, policy))
    of_fork = pull.head_repository != repository.full_name
    if of_fork and pull.merge_state == "behind" and not pull.maintainer_can_modify:
        return Reject(why_not_editable(pull))
    return None


def why_not_editable(pull: PullRequest) -> Reason:
    """Return why IMQ may not push to the fork of this pull request: the next step differs.

    GitHub offers "Allow edits by maintainers" for forks of personal accounts alone (isaacs/github #1681, renovate
    #22892).
    """
    return Reason.FORK_OF_ORGANISATION if pull.head_in_organisation else Reason.FORK_NOT_EDITABLE


def _reject_signatures(pull: PullRequest, requirements: RequiredFacts, policy: Policy) -> Reject | None:
    if not (requirements.unsigned and needs_signed_commits(pull, requirements.rules, policy)):
        return None
    more = len(requirements.unsigned) - _NAMED
    named = ", ".join(sha[:_SHORT] for sha in requirements.unsigned[:_NAMED])
    return Reject(Reason.SIGNATURES_MISSING, named + (f" and {more} more" if more > 0 else ""))


def _missing_review(requirements: RequiredFacts) -> Reject | None:
    missing = None
    if requirements.reviews is not None:
        missing = missing_approval(
            requirements.reviews, requirements.rules, requirements.decision, requirements.code_owners
        )
    return None if missing is None else Reject(*missing)


def _open_conversation(requirements: RequiredFacts) -> Reject | None:
    unresolved = requirements.rules.conversations and requirements.open_conversations
    return Reject(Reason.CONVERSATIONS_UNRESOLVED) if unresolved else None
