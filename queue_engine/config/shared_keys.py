"""List how far an organisation's shared configuration may change each key, and the risk of any other change."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from queue_engine.domain.facts import Permission
from queue_engine.domain.policy import (
    CommentPolicy,
    GithubMergePolicy,
    Mode,
    NotReadyPolicy,
    NotReadyPushPolicy,
    Policy,
    PushPolicy,
)
from queue_engine.domain.train_policy import Candidates, TrainForks

_PERMISSIONS, _LEVELS, _FORKS = tuple(Permission), tuple(CommentPolicy), tuple(TrainForks)


@dataclass(frozen=True, slots=True)
class SharedKey:
    """How far a shared configuration may change one key."""

    name: str
    """As in `queue_engine.config.policy.KEYS`."""
    field: str
    may: str
    """The allowed change of the key, in words."""
    risk: str
    """The risk of any other change; completes "because"."""
    stricter: Callable[[Policy, Any], Any]
    """Computes the effective value from the operator's policy and the wanted value: the stricter one."""


def _operators(field: str) -> Callable[[Policy, Any], Any]:
    return lambda operator, _: getattr(operator, field)


def _shorter(field: str) -> Callable[[Policy, Any], Any]:
    return lambda operator, wanted: min(getattr(operator, field), wanted)


def _longer(field: str) -> Callable[[Policy, Any], Any]:
    return lambda operator, wanted: max(getattr(operator, field), wanted)


def _both(field: str) -> Callable[[Policy, Any], Any]:
    return lambda operator, wanted: getattr(operator, field) and wanted


def _added(field: str) -> Callable[[Policy, Any], Any]:
    """Add the wanted values to the operator's."""

    def add(operator: Policy, wanted: Any) -> Any:
        given = getattr(operator, field)
        if isinstance(given, frozenset):
            return given | wanted
        return (*wanted, *(each for each in given if each not in wanted))

    return add


def _common(field: str) -> Callable[[Policy, Any], Any]:
    """Keep only values that the operator has too."""

    def keep(operator: Policy, wanted: Any) -> Any:
        given = getattr(operator, field)
        return type(given)(each for each in wanted if each in given)

    return keep


def _trigger_labels(operator: Policy, wanted: Iterable[str]) -> tuple[str, ...]:
    known = {label.casefold() for label in operator.trigger_labels}
    return tuple(label for label in wanted if label.casefold() in known) or operator.trigger_labels


def _depth(operator: Policy, wanted: int) -> int:
    """Take the smaller limit, where 0 is no limit."""
    return min((depth for depth in (operator.max_depth, wanted) if depth), default=0)


def _permission(operator: Policy, wanted: Permission) -> Permission:
    return max(operator.may_queue, wanted, key=_PERMISSIONS.index)


def _on_push(operator: Policy, wanted: PushPolicy) -> PushPolicy:
    return PushPolicy.DEQUEUE if PushPolicy.DEQUEUE in (operator.on_push, wanted) else wanted


def _on_waiting_push(operator: Policy, wanted: NotReadyPushPolicy) -> NotReadyPushPolicy:
    return NotReadyPushPolicy.DEQUEUE if NotReadyPushPolicy.DEQUEUE in (operator.on_waiting_push, wanted) else wanted


def _when_not_ready(operator: Policy, wanted: NotReadyPolicy) -> NotReadyPolicy:
    return NotReadyPolicy.REFUSE if NotReadyPolicy.REFUSE in (operator.when_not_ready, wanted) else wanted


def _auto_merge(operator: Policy, wanted: GithubMergePolicy) -> GithubMergePolicy:
    return operator.auto_merge if wanted is GithubMergePolicy.IGNORE else wanted


def _check_timeout(operator: Policy, wanted: timedelta | None) -> timedelta | None:
    """Take the shorter limit; if the operator's is `auto`, one up to the fallback."""
    longest = operator.check_timeout or operator.fallback_check_timeout
    return wanted if wanted is not None and wanted <= longest else operator.check_timeout


def _exempt_labels(operator: Policy, wanted: frozenset[str]) -> frozenset[str]:
    """Allow any label if the operator has no freezes: the shared file may exempt from its own."""
    return wanted & operator.freeze_exempt_labels if operator.freezes else wanted


def _level(operator: Policy, wanted: CommentPolicy) -> CommentPolicy:
    return min(operator.comments, wanted, key=_LEVELS.index)


def _mode(operator: Policy, wanted: Mode) -> Mode:
    return Mode.SHADOW if Mode.SHADOW in (operator.mode, wanted) else wanted


def _train_candidates(operator: Policy, wanted: Candidates) -> Candidates:
    return Candidates.OFF if wanted is Candidates.OFF else operator.train_candidates


def _train_runs(operator: Policy, wanted: int | None) -> int | None:
    """Take the smaller number, where None is as many as CI starts."""
    return min((runs for runs in (operator.train_runs, wanted) if runs is not None), default=None)


def _train_forks(operator: Policy, wanted: TrainForks) -> TrainForks:
    return min(operator.train_forks, wanted, key=_FORKS.index)


_BRANCHES = "IMQ would push branches, and run changes with secrets, in repositories that did not ask for it"
_LATER = "longer waits would delay all queues"
_ORDER = "a member would decide whose pull request goes first, and which one lands on a red base"
_HISTORY = "a member's text would be in the history of all repositories"

SHARED_KEYS = (
    SharedKey("mode", "mode", "`shadow`", "IMQ would write where the operator does not let it", _mode),
    SharedKey("enabled", "served", "`false`", "a branch that has no queue would get one", _both("served")),
    SharedKey(
        "trigger_labels",
        "trigger_labels",
        "some of the operator's labels",
        "a label that maintainers set for another purpose would land pull requests",
        _trigger_labels,
    ),
    SharedKey("depth", "max_depth", "a lower number", "a longer queue would cost what the operator limited", _depth),
    SharedKey(
        "when_not_ready",
        "when_not_ready",
        "`refuse`",
        "pull requests would wait that the operator refuses",
        _when_not_ready,
    ),
    SharedKey("on_push.queued", "on_push", "`dequeue`", "a head that was not queued would land", _on_push),
    SharedKey(
        "on_push.waiting",
        "on_waiting_push",
        "`dequeue`",
        "a head that no one labelled would land",
        _on_waiting_push,
    ),
    SharedKey(
        "on_push.requeue_for",
        "requeue_for",
        "nothing",
        "a head that was not queued would land",
        _common("requeue_for"),
    ),
    SharedKey("auto_merge", "auto_merge", "`disable`, `refuse`", "GitHub would merge past the queue", _auto_merge),
    SharedKey(
        "who_may_queue.permission",
        "may_queue",
        "a stronger permission, never one below write",
        "people would land changes who may not merge them",
        _permission,
    ),
    SharedKey(
        "who_may_queue.people",
        "may_queue_too",
        "nothing",
        "a member could name themselves, and land changes that they may not merge",
        _common("may_queue_too"),
    ),
    SharedKey(
        "who_may_queue.teams",
        "may_queue_teams",
        "nothing",
        "a member could name a team of theirs, and land changes that they may not merge",
        _common("may_queue_teams"),
    ),
    SharedKey("blocking.labels", "blocking_labels", "any labels", "nothing", _added("blocking_labels")),
    SharedKey("blocking.titles", "blocking_titles", "any patterns", "nothing", _added("blocking_titles")),
    SharedKey("priority.labels", "priorities", "nothing", _ORDER, _operators("priorities")),
    SharedKey("priority.ageing", "ageing", "nothing", _ORDER, _operators("ageing")),
    SharedKey("fair_share.enabled", "fair_share", "nothing", _ORDER, _operators("fair_share")),
    SharedKey("fair_share.waiting", "share_waiting", "nothing", _ORDER, _operators("share_waiting")),
    SharedKey("fair_share.agents", "agents", "nothing", _ORDER, _operators("agents")),
    SharedKey("merge.method", "method", "any method that the rules allow", "nothing", lambda _, wanted: wanted),
    SharedKey(
        "merge.method_labels",
        "method_labels",
        "any labels and methods that the rules allow",
        "nothing",
        lambda _, wanted: wanted,
    ),
    SharedKey("merge.title", "commit_title", "nothing", _HISTORY, _operators("commit_title")),
    SharedKey("merge.body", "commit_body", "nothing", _HISTORY, _operators("commit_body")),
    SharedKey(
        "merge.delete_branch",
        "delete_branch",
        "`false`",
        "IMQ would delete branches whose owners did not ask for it",
        _both("delete_branch"),
    ),
    SharedKey("checks.required", "required_checks", "any checks", "nothing", _added("required_checks")),
    SharedKey("checks.queue_only", "queue_only_checks", "any checks", "nothing", _added("queue_only_checks")),
    SharedKey(
        "checks.testing_label",
        "testing_label",
        "nothing",
        "a member would have IMQ set a label that means something else elsewhere",
        _operators("testing_label"),
    ),
    SharedKey(
        "checks.ignored", "ignored_checks", "nothing", "failing checks would not count", _common("ignored_checks")
    ),
    SharedKey(
        "checks.land_without",
        "land_without_checks",
        "`false`",
        "changes would land that no check has tested",
        _both("land_without_checks"),
    ),
    SharedKey("checks.timeout", "check_timeout", "a shorter one than `fallback_timeout`", _LATER, _check_timeout),
    SharedKey(
        "checks.fallback_timeout",
        "fallback_check_timeout",
        "a shorter one",
        _LATER,
        _shorter("fallback_check_timeout"),
    ),
    SharedKey(
        "checks.reruns",
        "check_reruns",
        "a lower number",
        "a failed check would get more tries to pass",
        _shorter("check_reruns"),
    ),
    SharedKey(
        "checks.cancel_outdated",
        "cancel_outdated",
        "`false`",
        "IMQ would cancel runs whose repository did not ask for it",
        _both("cancel_outdated"),
    ),
    SharedKey(
        "checks.untested_paths",
        "untested_paths",
        "nothing",
        "changes would land on a base that no check has tested",
        _common("untested_paths"),
    ),
    SharedKey("checks.first_report", "first_report", "a shorter one", _LATER, _shorter("first_report")),
    SharedKey("checks.settle", "settle", "a longer one", "checks that start late would be missed", _longer("settle")),
    SharedKey("timeouts.update", "update_timeout", "a shorter one", _LATER, _shorter("update_timeout")),
    SharedKey("timeouts.hold", "hold_timeout", "a shorter one", _LATER, _shorter("hold_timeout")),
    SharedKey(
        "timeouts.ready", "ready_timeout", "a shorter one", "pull requests would wait longer", _shorter("ready_timeout")
    ),
    SharedKey("timeouts.run", "run_timeout", "a shorter one", _LATER, _shorter("run_timeout")),
    SharedKey("trains.candidates", "train_candidates", "`off`", _BRANCHES, _train_candidates),
    SharedKey("trains.runs", "train_runs", "a lower number", "a member would decide how much CI runs", _train_runs),
    SharedKey(
        "trains.max_size",
        "train_size",
        "a lower number",
        "more pull requests would wait for one CI run",
        _shorter("train_size"),
    ),
    SharedKey("trains.first_report", "train_first_report", "a shorter one", _LATER, _shorter("train_first_report")),
    SharedKey(
        "trains.split", "train_split", "nothing", "a member would decide how much CI runs", _operators("train_split")
    ),
    SharedKey(
        "trains.forks",
        "train_forks",
        "`off`, or `reviewed` in place of `on`",
        "changes of forks would run with secrets in repositories that did not ask for it",
        _train_forks,
    ),
    SharedKey("freeze.windows", "freezes", "any windows", "nothing", _added("freezes")),
    SharedKey(
        "freeze.exempt_labels",
        "freeze_exempt_labels",
        "labels that are exempt from the shared file's own windows",
        "changes would land in a freeze of the operator's",
        _exempt_labels,
    ),
    SharedKey(
        "comments.level", "comments", "a level with more comments", "people would not learn what IMQ does", _level
    ),
    SharedKey("comments.texts", "texts", "nothing", "people would take a member's text for IMQ's", _operators("texts")),
)
"""Every key of the file, in its order; a test asserts that none is missing."""
