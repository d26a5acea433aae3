"""Say why checks failed, as far as IMQ knows: by the change alone, or together with what landed since. Pure.

Nothing is claimed that was not read: a change counts as good alone only where its failed checks had passed on it.
"""

import re
from collections.abc import Iterable, Sequence

from notifications.render.escape import code, names, pull_requests
from notifications.texts.headlines import KindText
from notifications.texts.reason_texts import REQUEUE
from queue_engine.domain.departure import FailingCheckFacts, may_judge_pull_request

TOGETHER = KindText(
    "❌ Removed from the queue for {base}: it fails together with what landed since",
    "Fails together with what landed since",
)

PASSED_ALONE = "{checks} passed on your commit {head}, and fails with {base} merged in."
PASSED_ALONE_MANY = "{checks} passed on your commit {head}, and fail with {base} merged in."
FAILED_BEFORE = "{checks} failed on your commit {head}, too, without {base}."
FAILED_ON_HEAD = "{checks} failed on your commit {head}."
FAILED_MERGED = "{checks} failed on your commit {head} with {base} merged in."
WHERE_FAILED = (PASSED_ALONE, PASSED_ALONE_MANY, FAILED_BEFORE, FAILED_ON_HEAD, FAILED_MERGED)
"""Each text about failed checks with known facts has one of them."""
ON_BASE = "Without your commits, {base} passes."
LANDED_BETWEEN = "Landed in between: {numbers}."
PUSHED_BETWEEN = "In between, somebody pushed to {base} outside the queue."
RERUN_ONCE = "IMQ reran the failed checks once, with the same result: not flaky."
RERUN_OFTEN = "IMQ reran the failed checks {count} times, with the same result: not flaky."

ALONE_IN_TRAIN = "The CI run that failed tested this pull request alone, on top of {base}."
WITH_OTHERS = "The CI run that failed tested this pull request together with {numbers}, on top of {base}."

REPRODUCE = "Reproduce it with {commands}, and push a fix."
REPRODUCE_PULLED = "Reproduce it with {commands} (`git pull` gets the same: IMQ pushed that merge), and push a fix."
FIX = "Push a fix."
FIX_OR_RERUN = "Push a fix, or rerun the check if it is flaky."

JUDGES_COMMITS = (
    "If the check judges the commits themselves, such as their sign-off, exempt IMQ's App from it, or update the "
    "branch by rebase or by hand."
)
"""For a check that was green until IMQ pushed its own commit."""

OF_PULL_REQUEST = (
    " If the check judges the title, labels or commits, correct those. A rerun may see the former ones: push a commit "
    "if the check does not run again by itself."
)
"""A rerun has the event of the first run, and an edit starts a workflow only if its `types` have `edited`
(aws/s2n-tls #5749, vm0-ai/vm0 #23369)."""

_SHORT_SHA = 7
_MOST_NUMBERS = 12
_NAME_FOR_SHELLS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*")
"""Names of branches that a shell takes as they are; GitHub allows others."""


def failure_sentences(failure: FailingCheckFacts, base: str) -> list[str]:
    """Say which checks failed where, what landed in between, and whether IMQ reran them."""
    head, shown = code(failure.head_sha[:_SHORT_SHA]), code(base)
    other = tuple(each for each in failure.checks if each not in {*failure.green, *failure.red})
    passed = PASSED_ALONE if len(failure.green) == 1 else PASSED_ALONE_MANY
    parts = (
        (failure.green, passed),
        (failure.red, FAILED_BEFORE if failure.merged else FAILED_ON_HEAD),
        (other, FAILED_MERGED if failure.merged else FAILED_ON_HEAD),
    )
    found = [text.format(checks=names(checks), head=head, base=shown) for checks, text in parts if checks]
    if failure.is_together:
        found += [ON_BASE.format(base=shown)] if failure.on_base else []
        found += [LANDED_BETWEEN.format(numbers=numbers_text(failure.landed))] if failure.landed else []
        found += [PUSHED_BETWEEN.format(base=shown)] if failure.outside else []
    if failure.others is not None:
        found.append(run_sentence(failure.others, base))
    if failure.reruns:
        found.append(RERUN_ONCE if failure.reruns == 1 else RERUN_OFTEN.format(count=failure.reruns))
    return found


def run_sentence(others: Sequence[int], base: str) -> str:
    """Say with which pull requests the run of a train failed."""
    if others:
        return WITH_OTHERS.format(numbers=numbers_text(others), base=code(base))
    return ALONE_IN_TRAIN.format(base=code(base))


def next_step(failure: FailingCheckFacts, base: str) -> str:
    """Say what the author does; the trigger label is left to be filled in."""
    if not failure.is_together:
        judges = failure.judge_pull_request or any(map(may_judge_pull_request, failure.checks))
        return (FIX if failure.reruns else FIX_OR_RERUN) + OF_PULL_REQUEST * judges + REQUEUE
    remote = "upstream" if failure.fork else "origin"
    if not _NAME_FOR_SHELLS.fullmatch(base):
        return FIX + REQUEUE
    commands = code(f"git fetch {remote} && git merge {remote}/{base}")
    return (REPRODUCE_PULLED if failure.pushed else REPRODUCE).format(commands=commands) + REQUEUE


def after_update(failure: FailingCheckFacts | None) -> Iterable[str]:
    """Say what else may have made a check fail that was green before IMQ's own commit."""
    if failure is not None and failure.pushed and failure.green:
        yield JUDGES_COMMITS


def numbers_text(found: Sequence[int]) -> str:
    """Format the first numbers of pull requests, and how many more there are."""
    more = len(found) - _MOST_NUMBERS
    shown = pull_requests(found[:_MOST_NUMBERS])
    return f"{shown} and {more} more" if more > 0 else shown
