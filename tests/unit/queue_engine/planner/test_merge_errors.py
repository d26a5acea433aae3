from dataclasses import replace
from datetime import timedelta

import pytest

from queue_engine.domain.facts import CheckState, MergeMethod, PullRequest, Snapshot
from queue_engine.domain.model import Entry
from queue_engine.domain.reasons import Reason
from queue_engine.planner.actions import Block, Dequeue, FactKind, ReadFact, Save, Wait
from queue_engine.planner.check_outcome import judge_checks
from queue_engine.planner.merge_errors import (
    WORDS,
    awaits_check,
    judge_refused_merge,
    judge_refused_update,
    named,
    refused_merge,
)
from queue_engine.rules.invariants import check_transition
from tests.store.examples import changed
from tests.unit.queue_engine.examples import (
    CHECKING,
    NOW,
    PENDING,
    POLICY,
    READY,
    REPOSITORY,
    SECOND,
    UPDATING,
    comparison,
    entry,
    pull,
    report,
    rules,
    seen,
)

END = NOW + POLICY.refusal_timeout
"""When a merge that was first refused at NOW has been asked for long enough."""


def refused(times: int) -> Entry:
    """A front whose merge was refused so many times, first at NOW."""
    return entry(status=READY, merge_refusals=times, refused_since=NOW, status_since=NOW)


RULESET = "Repository rule violations found\n\n{}\n\n"

SAID = [
    ("Changes must be made through the merge queue", Reason.NATIVE_QUEUE_REQUIRED),
    ("Cannot change this locked branch", Reason.BRANCH_LOCKED),
    ("Cannot update this protected ref.", Reason.BRANCH_LOCKED),
    ("You're not authorized to push to this branch.", Reason.PUSH_RESTRICTED),
    ("1 review requesting changes by reviewers with write access.", Reason.CHANGES_REQUESTED),
    ("2 reviews requesting changes by reviewers with write access.", Reason.CHANGES_REQUESTED),
    ("Waiting on code owner review from acme/owners and/or ada.", Reason.CODE_OWNER_MISSING),
    ("At least 1 approving review is required by reviewers with write access.", Reason.APPROVAL_MISSING),
    ("At least 2 approving reviews are required by reviewers with write access.", Reason.APPROVAL_MISSING),
    ("New changes require approval from someone other than the last pusher.", Reason.APPROVAL_MISSING),
    (
        "A conversation must be resolved before this pull request can be merged.",
        Reason.CONVERSATIONS_UNRESOLVED,
    ),
    ("Commits must have verified signatures.", Reason.SIGNATURES_MISSING),
    ("Missing successful active staging deployment.", Reason.DEPLOYMENT_MISSING),
    ("Missing successful active staging and preview deployments.", Reason.DEPLOYMENT_MISSING),
]


STACKED = (
    "Merging stacked PRs via this endpoint is not supported. Use the asynchronous merge endpoint instead.",
    "This pull request is part of a stack and must be merged using the asynchronous merge REST API.",
)
WORKFLOWS = [
    "refusing to allow a GitHub App to create or update workflow `.github/workflows/ci.yml` "
    "without `workflows` permission",
    "refusing to allow a Personal Access Token to create or update workflow `.github/workflows/ci.yml` "
    "without `workflow` scope",
]
METHODS = [
    "Squash merges are not allowed on this repository.",
    "Merge is not an allowed merge method in this repository.",
]


@pytest.mark.parametrize("frame", ["{}", RULESET])
@pytest.mark.parametrize(("words", "reason"), SAID)
def test_refused_merge_leaves_for_what_githubs_words_name(words: str, reason: Reason, frame: str) -> None:
    """At once and in GitHub's words, whether a classic protection says so or a ruleset."""
    said = frame.format(words)
    assert judge_refused_merge(entry(status=READY, merge_refusals=1), said, seen(pull=pull()), POLICY, NOW) == Dequeue(
        reason, detail=said
    )


def test_refused_merge_words_are_all_heard() -> None:
    """No row of the table is there in vain: GitHub says each."""
    heard = [said.lower() for said in [*(said for said, _ in SAID), *METHODS, *WORKFLOWS, *STACKED]]
    assert all(any(known in said for said in heard) for known, _ in WORDS)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (
            "At least 1 approving review is required by reviewers with write access. Cannot change this locked branch",
            Reason.BRANCH_LOCKED,
        ),
        (
            RULESET.format(
                "Waiting on code owner review from ada.\n\nA conversation must be resolved before this pull request "
                "can be merged.\n\n2 of 3 required status checks are expected."
            ),
            Reason.CODE_OWNER_MISSING,
        ),
    ],
)
def test_refused_merge_for_several_reasons_names_first_what_the_author_cannot_mend(words: str, reason: Reason) -> None:
    """Nobody is sent for an approval to a branch that is locked; checks under way are the least."""
    assert named(words) is reason


@pytest.mark.parametrize(
    "words",
    [
        "A rule that GitHub invents next year stands against it.",
        "Required workflow 'scan' is not satisfied",
        "A review by a bot is in progress.",
    ],
)
def test_refused_merge_in_unknown_words_is_asked_for_again_for_ten_minutes(words: str) -> None:
    """It may pass, however often it is refused; after ten minutes people read GitHub's own words (P5)."""
    often, facts = refused(9), seen(pull=pull(), rules=rules())
    early = judge_refused_merge(often, words, facts, POLICY, END - timedelta(seconds=1))
    assert isinstance(early, Wait)
    assert early.until == END
    assert judge_refused_merge(often, words, facts, POLICY, END) == Dequeue(Reason.REFUSED_BY_RULES, detail=words)


@pytest.mark.parametrize(
    "words", ["A rule that GitHub invents next year.", "Required workflow 'scan' is not satisfied"]
)
def test_refused_merge_where_workflows_are_required_waits_for_what_is_under_way(words: str) -> None:
    """P5: GitHub's words do not tell whether a required workflow runs; its run does, and gets a check's time."""
    often, facts = refused(9), seen(pull=pull())
    assert judge_refused_merge(often, words, facts, POLICY, END) == ReadFact(FactKind.RULES)
    ruled = replace(facts, rules=rules("ci", workflows=True))
    assert judge_refused_merge(often, words, ruled, POLICY, END) == ReadFact(FactKind.CHECKS)
    running = replace(ruled, reports=(report("ci"), report("scan", CheckState.PENDING)))
    waiting = judge_refused_merge(often, words, running, POLICY, END)
    assert isinstance(waiting, Save)
    assert waiting.entry.status is CHECKING
    assert waiting.entry.run.next_poll_at is not None
    looked = judge_checks(waiting.entry, replace(running, merge_refused=words), POLICY, END)
    assert looked == Wait(waiting.entry, waiting.entry.run.next_poll_at), (
        "reports of this pass cannot make it ready again"
    )
    late = judge_refused_merge(often, words, running, POLICY, NOW + POLICY.fallback_check_timeout)
    assert isinstance(late, Dequeue)
    assert late.reason is Reason.CHECKS_TIMED_OUT
    ended = replace(ruled, reports=(report("ci"), report("scan")))
    assert judge_refused_merge(often, words, ended, POLICY, END) == Dequeue(Reason.REFUSED_BY_RULES, detail=words)


@pytest.mark.parametrize(
    "check", ["merge queue / lint", "approving review bot", "test-failover", "error pages", "locked branch", "stale"]
)
def test_refused_merge_for_a_check_is_never_judged_by_the_check_s_name(check: str) -> None:
    """P5: a check may be called like any refusal, and like any outcome."""
    words = f'Required status check "{check}" is expected.'
    assert named(words) is None
    assert awaits_check(words)
    assert not awaits_check(f'Required status check "{check}" is failing.')
    workflow = f"Repository rule violations found\n\nRequired workflow '{check}, it's new' is not satisfied\n\n"
    assert named(workflow) is None
    assert named(f"{workflow}Waiting on code owner review from ada.") is Reason.CODE_OWNER_MISSING


def test_refused_merge_for_workflows_is_never_judged_by_a_file_s_name() -> None:
    """GitHub names the file; only the permission counts."""
    file = "refusing to allow a GitHub App to create or update workflow `.github/workflows/merge queue.yml`"
    assert named(f"{file} without `workflows` permission") is Reason.WORKFLOWS_PERMISSION


def test_refused_update_is_no_conflict_because_a_check_is_called_so() -> None:
    """The branch may be updated as soon as GitHub lets it: nobody has to mend anything."""
    words = 'Repository rule violations found\n\nRequired status check "conflicts" is expected.\n\n'
    facts = seen(pull=pull(mergeable=None), comparison=comparison(behind=1))
    assert isinstance(judge_refused_update(entry(status=UPDATING), words, facts, POLICY, NOW), Wait)


def test_refused_merge_after_a_long_pause_is_asked_for_again_all_the_same() -> None:
    """A freeze between two refusals does not use up the tries."""
    facts = seen(pull=pull(), rules=rules())
    once = judge_refused_merge(refused(1), "No.", facts, POLICY, NOW + timedelta(hours=9))
    assert isinstance(once, Wait)


@pytest.mark.parametrize(
    "words",
    ["Base branch was modified. Review and try the merge again.", "This branch must not contain merge commits."],
)
def test_refused_merge_that_fresh_facts_may_cure_is_tried_again_at_once(words: str) -> None:
    """The base moved in that moment, or merge commits turn out to be forbidden: another method is tried."""
    assert judge_refused_merge(entry(status=READY, merge_refusals=1), words, seen(pull=pull()), POLICY, NOW) is None


OUTDATED = "Head branch is out of date. Review and try the merge again."


@pytest.mark.parametrize("mergeable", [True, None])
def test_refused_merge_of_a_head_said_to_be_outdated_turns_on_its_comparison(mergeable: bool | None) -> None:
    """Behind: it is updated. Unknown: it is compared. Not behind: GitHub is asked again later, whatever runs on it."""
    at = entry(status=READY, merge_refusals=1)
    facts = seen(
        pull=pull(mergeable=mergeable), rules=rules("ci", workflows=True), reports=(report("ci", CheckState.PENDING),)
    )
    judged = [
        judge_refused_merge(at, OUTDATED, replace(facts, comparison=compared), POLICY, NOW)
        for compared in (comparison(behind=2), None, comparison())
    ]
    assert judged[:2] == [None, None]
    assert isinstance(judged[2], Wait)
    assert NOW < judged[2].until <= NOW + 10 * SECOND
    taken = Snapshot(pull(), behind=0)
    assert judge_refused_merge(at, OUTDATED, replace(facts, snapshot=taken), POLICY, NOW) == judged[2]


def test_refused_merge_over_merge_commits_that_no_method_cures_says_so() -> None:
    """Classic protection does not show linear history: it is known by the refusal's words only."""
    often = entry(status=READY, merge_refusals=POLICY.merge_refusals)
    words = "This branch must not contain merge commits."
    assert judge_refused_merge(often, words, seen(pull=pull()), POLICY, NOW) == Dequeue(
        Reason.LINEAR_HISTORY_REQUIRED, detail=words
    )


def test_refused_merge_that_names_its_method_excludes_it() -> None:
    """Another one may be left; a refusal for anything else excludes none."""
    squash = "Squash merges are not allowed on this repository."
    first = refused_merge("This branch must not contain merge commits.", MergeMethod.MERGE, frozenset())
    second = refused_merge(squash, MergeMethod.SQUASH, first.refused_methods)
    assert second.refused_methods == {MergeMethod.MERGE, MergeMethod.SQUASH}
    asked = replace(second, pull=pull())
    assert judge_refused_merge(entry(status=READY, merge_refusals=9), squash, asked, POLICY, NOW) is None
    waiting = 'Required status check "ci" is expected.'
    assert refused_merge(waiting, MergeMethod.MERGE, frozenset()).refused_methods == frozenset()


@pytest.mark.parametrize(
    "words",
    [
        'Required status check "ci" is expected.',
        'Required status check "ci" is failing.',
        "2 of 3 required status checks are expected.",
        "2 of 3 required status checks have not succeeded: 1 expected and 1 failing.",
    ],
)
def test_refused_merge_over_a_check_looks_at_all_checks_again(words: str) -> None:
    """One is required that was not known of, or was started again: no fault of anybody."""
    judged = judge_refused_merge(entry(status=READY, merge_refusals=1), words, seen(pull=pull()), POLICY, NOW)
    assert isinstance(judged, Save)
    assert (judged.entry.status, judged.entry.run.merge_requested_at) == (CHECKING, None)


def test_forbidden_merge_names_the_permission() -> None:
    """403: the operator reads which one."""
    words = "Resource not accessible by integration (needs contents=write)"
    facts = seen(pull=pull(), merge_denied=Reason.PERMISSION_MISSING)
    assert judge_refused_merge(entry(status=READY), words, facts, POLICY, NOW) == Dequeue(
        Reason.PERMISSION_MISSING, detail=words
    )


@pytest.mark.parametrize("words", STACKED)
@pytest.mark.parametrize("denied", [None, Reason.PERMISSION_MISSING])
def test_refused_merge_of_a_stacked_pull_request_is_no_missing_permission(words: str, denied: Reason | None) -> None:
    """Not retried, and nobody is sent for a permission: GitHub answers 403 or 405 (Kodiak #923, git-stk #306)."""
    facts = seen(pull=pull(), merge_denied=denied)
    assert judge_refused_merge(entry(status=READY), words, facts, POLICY, NOW) == Dequeue(Reason.STACKED, detail=words)


@pytest.mark.parametrize("frame", ["{}", RULESET])
@pytest.mark.parametrize("words", WORKFLOWS)
@pytest.mark.parametrize("denied", [None, Reason.PERMISSION_MISSING])
def test_refusal_to_change_workflows_blocks_the_entry_and_ejects_nobody(
    words: str, frame: str, denied: Reason | None
) -> None:
    """P5: 403, or among a ruleset's violations; it gives its turn away, is tried ever more rarely, and leaves last."""
    said, facts = frame.format(words), seen(pull=pull(), merge_denied=denied)
    front = entry(status=READY, merge_requested_at=NOW, merge_refusals=1)
    now, waits = NOW, []
    while isinstance(judged := judge_refused_merge(front, said, facts, POLICY, now), Block):
        assert (judged.reason, judged.detail) == (Reason.WORKFLOWS_PERMISSION, said)
        stored = judged.entry
        assert (stored.status, stored.run.merge_requested_at, stored.head) == (PENDING, None, front.head)
        assert (stored.blocked_since, stored.queued_head) == (NOW, front.queued_head)
        assert stored.blocked_until is not None
        waits.append(stored.blocked_until - now)
        now, front = stored.blocked_until, replace(front, blocked_since=stored.blocked_since)
    assert judged == Dequeue(Reason.WORKFLOWS_PERMISSION, detail=said)
    assert waits[:4] == [timedelta(hours=hours) for hours in (1, 1, 2, 4)]
    assert now == NOW + POLICY.hold_timeout


def test_refused_merge_of_what_conflicts_is_a_conflict_whatever_the_words() -> None:
    """GitHub says no more than that it is not mergeable."""
    facts = seen(pull=pull(mergeable=False))
    assert judge_refused_merge(entry(status=READY), "Pull Request is not mergeable", facts, POLICY, NOW) == Dequeue(
        Reason.CONFLICT
    )


UNSAID = "Pull Request is not mergeable"


def test_refused_merge_while_github_works_out_conflicts_is_asked_again_until_its_time_is_up() -> None:
    """P5: what GitHub has not worked out yet is no rule; it gets as long as for an update, and then it is said."""
    facts = seen(pull=pull(mergeable=None))
    often = refused(POLICY.merge_refusals)
    asked = judge_refused_merge(often, UNSAID, facts, POLICY, NOW + timedelta(seconds=9))
    assert isinstance(asked, Wait)
    assert asked.until == asked.entry.run.next_poll_at == NOW + timedelta(seconds=9 + 2 * 2**often.run.merge_refusals)
    end = NOW + POLICY.update_timeout
    last = judge_refused_merge(often, UNSAID, facts, POLICY, end - timedelta(seconds=1))
    assert isinstance(last, Wait)
    assert last.until == end
    assert judge_refused_merge(often, UNSAID, facts, POLICY, end) == Dequeue(Reason.MERGEABLE_UNKNOWN, detail=UNSAID)


def test_refused_merge_of_what_was_ready_for_long_is_asked_again_all_the_same() -> None:
    """After hours of a freeze GitHub still gets some tries."""
    facts, late = seen(pull=pull(mergeable=None)), NOW + timedelta(hours=9)
    once = entry(status=READY, status_since=NOW, merge_refusals=1)
    assert isinstance(judge_refused_merge(once, UNSAID, facts, POLICY, late), Wait)


@pytest.mark.parametrize(("words", "reason"), SAID)
def test_refused_merge_in_known_words_is_believed_whatever_of_conflicts_is_unknown(words: str, reason: Reason) -> None:
    """A rule that GitHub names does not wait for its computation."""
    facts = seen(pull=pull(mergeable=None))
    assert judge_refused_merge(entry(status=READY, merge_refusals=1), words, facts, POLICY, NOW) == Dequeue(
        reason, detail=words
    )


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("Base branch was modified. Review and try the merge again.", Reason.REFUSED_BY_RULES),
        ("This branch must not contain merge commits.", Reason.LINEAR_HISTORY_REQUIRED),
        ('Required status check "ci" is failing.', Reason.REFUSED_BY_RULES),
    ],
)
def test_refused_merge_that_names_its_cause_counts_as_ever_while_conflicts_are_unknown(
    words: str, reason: Reason
) -> None:
    """Only a refusal that explains nothing is put down to GitHub's computation."""
    often, facts = refused(POLICY.merge_refusals), seen(pull=pull(mergeable=None))
    assert judge_refused_merge(often, words, facts, POLICY, END) == Dequeue(reason, detail=words)


FORK = {"head_repository": "eve/engine"}


@pytest.mark.parametrize(
    ("of", "words", "reason"),
    [
        (pull(), "Resource not accessible by integration", Reason.PERMISSION_MISSING),
        (pull(**FORK), "Resource not accessible by integration", Reason.UPDATE_REFUSED),
        (
            pull(**FORK, maintainer_can_modify=False),
            "Must have push access to the head repository",
            Reason.FORK_NOT_EDITABLE,
        ),
    ],
)
def test_forbidden_update_names_what_is_in_its_way(of: PullRequest, words: str, reason: Reason) -> None:
    """IMQ's own permission, or the fork's setting."""
    facts = seen(pull=of, comparison=comparison(behind=1), update_forbidden=True)
    assert judge_refused_update(entry(status=UPDATING), words, facts, POLICY, NOW) == Dequeue(reason, detail=words)


def test_update_of_a_fork_that_would_change_workflows_blocks_the_entry() -> None:
    """The base changed workflow files, and IMQ may not push such a change to a fork."""
    facts = seen(pull=pull(**FORK), comparison=comparison(behind=1), update_forbidden=True)
    judged = judge_refused_update(entry(status=UPDATING), WORKFLOWS[0], facts, POLICY, NOW)
    assert isinstance(judged, Block)
    check_transition(UPDATING, judged.entry.status)


def test_refused_update_is_judged_by_facts_before_words() -> None:
    """A new head, or nothing to update, is no refusal; the facts are read first."""
    words = "expected head sha didn\u2019t match current head ref."
    updating = entry(status=UPDATING, status_since=NOW - timedelta(seconds=1))
    assert judge_refused_update(updating, words, seen(), POLICY, NOW) == ReadFact(FactKind.PULL)
    assert judge_refused_update(updating, words, seen(pull=pull()), POLICY, NOW) == ReadFact(FactKind.COMPARISON)
    moved = judge_refused_update(updating, words, seen(pull=pull(head_sha="head-2")), POLICY, NOW)
    assert isinstance(moved, Save)
    assert moved.entry.run.new_head == "head-2"
    current = judge_refused_update(updating, words, seen(pull=pull(), comparison=comparison()), POLICY, NOW)
    assert isinstance(current, Save)
    assert current.entry.status is CHECKING


@pytest.mark.parametrize(
    ("mergeable", "words", "reason"),
    [
        (False, "no", Reason.CONFLICT),
        (None, "merge conflict between base and head", Reason.CONFLICT),
        (True, "Cannot update this protected ref.", Reason.UPDATE_REFUSED),
        (True, "Validation failed", Reason.UPDATE_REFUSED),
    ],
)
def test_refused_update_leaves_for_what_is_known(mergeable: bool | None, words: str, reason: Reason) -> None:
    """A conflict is one by GitHub's own computation or by its words; anything else is told in them."""
    facts = seen(pull=pull(mergeable=mergeable, head_repository=REPOSITORY.full_name), comparison=comparison(behind=1))
    asked = entry(status=UPDATING, polls=POLICY.update_refusals)
    judged = judge_refused_update(asked, words, facts, POLICY, NOW)
    assert isinstance(judged, Dequeue)
    assert judged.reason is reason


def test_refused_update_that_nothing_explains_is_asked_for_again() -> None:
    """P4: a replica may not show the push yet for which GitHub refuses."""
    words = "expected head sha didn\u2019t match current head ref."
    facts, asked = seen(pull=pull(), comparison=comparison(behind=1)), entry(status=UPDATING)
    judged = judge_refused_update(asked, words, facts, POLICY, NOW)
    assert isinstance(judged, Wait)
    assert (judged.entry.run.polls, judged.until) == (1, NOW + POLICY.ask_again.base)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ('Required status check "ci" is expected.', "ci"),
        ('Required status check "ci" is pending.', "ci"),
        ('Required status check "ci / build" is in progress.', "ci / build"),
        (RULESET.format('Required status check "ci" is expected.'), "ci"),
        ("2 of 3 required status checks are expected.", "2 of 3 required status checks are expected."),
        ("Code scanning is waiting for results from CodeQL for the commits 7f2 or 9c1.", "CodeQL"),
        ("Code scanning is still expecting 2 results from CodeQL.", "CodeQL"),
    ],
)
def test_refused_merge_for_a_check_that_github_misses_is_waited_out_and_names_it(words: str, named: str) -> None:
    """However often it is refused, the check has its whole time, counted from the first refusal; P5 ends it."""
    limit = POLICY.fallback_check_timeout
    now, front = NOW, replace(refused(1), status_since=NOW - 9 * limit)
    for refusals in range(1, 20):
        judged = judge_refused_merge(changed(front, merge_refusals=refusals), words, seen(pull=pull()), POLICY, now)
        if isinstance(judged, Dequeue):
            break
        assert isinstance(judged, Save)
        assert (judged.entry.status, judged.entry.run.merge_requested_at) == (CHECKING, None)
        assert judged.entry.run.next_poll_at is not None
        # As the pass does it: all that is known is green still, and the merge is asked for again.
        looking = judge_checks(judged.entry, seen(rules=rules()), POLICY, now)
        assert isinstance(looking, Wait)
        now = looking.until
        again = seen(rules=rules("other"), reports=(report("other"),))
        green = judge_checks(changed(looking.entry, next_poll_at=None), again, POLICY, now)
        assert isinstance(green, Save)
        assert green.entry.status is READY
        front = green.entry
    assert judged == Dequeue(
        Reason.CHECKS_TIMED_OUT,
        detail=f"{named} (limit: 120 minutes, while there is no history to tell how long checks take here)",
    )
    assert now == NOW + limit
    assert refusals < 9
