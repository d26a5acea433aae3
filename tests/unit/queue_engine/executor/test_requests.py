"""The requests for a pull request of a stack, and what IMQ makes of GitHub's answers."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from queue_engine.domain.errors import Forbidden, GitHubError, HeadConflict, Invalid, NotFound, Refused
from queue_engine.domain.facts import Commit, MergeMethod
from queue_engine.domain.port import MergeState, PendingMerge
from queue_engine.domain.reasons import Reason
from queue_engine.executor import reads, requests
from queue_engine.planner.actions import Facts, Merge
from tests.unit.queue_engine.examples import NOW, READY, UPDATING, entry, pull

PENDING = PendingMerge(MergeState.PENDING, "Merge request enqueued.", "u-1")
REFUSED = Forbidden("Merging stacked PRs via this API is not supported. Use the web interface instead.", status=403)
AT = entry(status=READY, merge_uuid="u-1")


class Answers:
    """A GitHub that answers each call with what is set under its name, and raises what is an error."""

    def __init__(self, **answers: Any) -> None:
        self.answers, self.calls = answers, list[str]()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        async def call(*_: Any, **__: Any) -> Any:
            self.calls.append(name)
            if isinstance(answer := self.answers[name], Exception):
                raise answer
            return answer

        return call

    def forget_rules(self, repository_id: int) -> None:
        self.calls.append("forget_rules")


def asked(github: Answers) -> Any:
    """The double as the port."""
    return github


async def merged(github: Answers, *, in_background: bool) -> Any:
    how = Merge(AT, MergeMethod.SQUASH, in_background=in_background)
    return await requests.merge(asked(github), AT, how, frozenset(), NOW)


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (PENDING, PENDING),
        (PendingMerge(MergeState.MERGED, sha="landed"), "landed"),
        (PendingMerge(MergeState.FAILED, "Pull request is in draft"), Facts(merge_refused="Pull request is in draft")),
        (NotFound("Not Found", status=404), Facts(merge_refused="Not Found", merge_denied=Reason.STACKED)),
        (Forbidden("no", status=403), Facts(merge_refused="no", merge_denied=Reason.PERMISSION_MISSING)),
    ],
)
async def test_merge_in_the_background_is_followed_landed_or_refused(answer: Any, result: Any) -> None:
    """Where GitHub does not offer it, no retry can help."""
    assert await merged(Answers(merge_in_background=answer), in_background=True) == result


@pytest.mark.parametrize(
    "shown", [pull(), pull(stack_base="trunk"), pull(stack_base=""), pull(base_branch="dev", stack_base="dev")]
)
async def test_stack_that_only_the_refusal_shows_is_merged_as_its_lowest_only(shown: Any) -> None:
    """P1: unless REST shows that nothing lies below it, it is not merged."""
    github = Answers(merge=REFUSED, pull_request=shown)
    assert await merged(github, in_background=False) == Facts(
        merge_refused=REFUSED.message, merge_denied=Reason.STACKED
    )
    github.answers |= {"pull_request": pull(stack_base="main"), "merge_in_background": PENDING}
    assert await merged(github, in_background=False) == PENDING


async def test_result_that_github_does_not_know_yet_is_pending() -> None:
    """A replica may lag behind the request; the time limit of pending merges ends it."""
    github = Answers(pending_merge=NotFound("Not Found", status=404))
    facts = await reads.pending_merge(asked(github), AT, Facts())
    assert facts == Facts(pending_merge=PendingMerge(MergeState.PENDING, "Not Found"))


@pytest.mark.parametrize("state", [MergeState.FAILED, MergeState.ENQUEUED])
async def test_failed_result_is_a_refusal_and_drops_the_cached_rules(state: MergeState) -> None:
    """Rules may have changed since IMQ read them; GitHub's own queue, which IMQ did not ask for, is no landing."""
    failed = PendingMerge(state, "Merge conflict: the pull request could not be merged.")
    github = Answers(pending_merge=failed)
    facts = await reads.pending_merge(asked(github), AT, Facts())
    assert facts == Facts(pending_merge=failed, merge_refused=failed.message)
    assert "forget_rules" in github.calls


@pytest.mark.parametrize(
    ("answer", "facts"),
    [
        (Commit("merged", "tree", ("head-1", "base-1")), Facts()),
        (None, Facts(update_refused=REFUSED.message)),
        (HeadConflict("Merge conflict", status=409), Facts(update_refused="Merge conflict")),
        (Invalid("rules", status=422), Facts(update_refused="rules")),
        (Forbidden("no", status=403), Facts(update_refused="no", update_forbidden=True)),
    ],
)
async def test_update_of_a_stack_merges_the_base_into_the_head_branch(answer: Any, facts: Facts) -> None:
    """GitHub refuses to update such a pull request; its head branch is a branch like any other."""
    github = Answers(update_branch=REFUSED, pull_request=pull(stack_base="main"), merge_into=answer)
    assert await requests.update(asked(github), entry(status=UPDATING), NOW) == facts


@pytest.mark.parametrize(
    "words",
    [
        "expected head sha didn\u2019t match current head ref.",
        "There are no new commits on the base branch.",
        "merge conflict between base and head",
        "This branch must not contain merge commits.",
        "Commit message must match a given regex pattern: ^feat: ",
        "Repository rule violations found\n\nA new rule.",
        "user doesn't have permission to update head repository",
        "5 of 5 required status checks are expected.",
        "Protected branch update failed for refs/heads/fix.",
    ],
)
async def test_update_that_github_explains_is_judged_by_its_words(words: str) -> None:
    """P5: facts and rules decide, at once."""
    github = Answers(update_branch=Invalid(words, status=422))
    assert await requests.update(asked(github), entry(status=UPDATING), NOW) == Facts(update_refused=words)


async def test_update_refused_without_an_explanation_is_github_in_trouble_until_it_repeats_that() -> None:
    """P5: overload and proxies answer 422 too; after ten minutes it is a refusal, in GitHub's words."""
    words = "Request cannot be processed at this time."
    github = Answers(update_branch=Invalid(words, status=422))
    with pytest.raises(Refused, match=words):
        await requests.update(asked(github), entry(status=UPDATING), NOW)
    failing = entry(status=UPDATING, github_failing_since=NOW - timedelta(minutes=10))
    assert await requests.update(asked(github), failing, NOW) == Facts(update_refused=words)


async def test_update_of_a_stack_spares_a_head_that_moved() -> None:
    """P4: the new head is judged first; this request could not name the expected one."""
    moved = pull(head_sha="head-2", stack_base="main")
    github = Answers(update_branch=REFUSED, pull_request=moved)
    facts = await requests.update(asked(github), entry(status=UPDATING), NOW)
    assert facts == Facts(pull=moved, update_refused=REFUSED.message)
    assert "merge_into" not in github.calls


@pytest.mark.parametrize("error", [REFUSED, GitHubError("odd")])
async def test_errors_of_a_merge_in_the_background_are_raised_or_judged(error: GitHubError) -> None:
    """A refusal that names the stack again leads to no second try."""
    github = Answers(merge_in_background=error)
    if isinstance(error, Forbidden):
        found = await merged(github, in_background=True)
        assert found == Facts(merge_refused=error.message, merge_denied=Reason.PERMISSION_MISSING)
    else:
        with pytest.raises(GitHubError):
            await merged(github, in_background=True)
    assert github.calls == ["merge_in_background"]
