"""What starts CI on candidates, by workflow files: right on the corpus, and never wrong towards tested."""

import json
from dataclasses import replace

import pytest

from queue_engine.config.document import parse
from queue_engine.domain.facts import RequiredCheck
from queue_engine.domain.policy import Candidates
from queue_engine.domain.run import CandidateTrigger
from queue_engine.workflows.trigger_choice import choose_trigger
from tests.unit.queue_engine.workflows.labeled import CANDIDATE, labeled_cases, labeled_workflows

FILES = labeled_workflows()
CASES = labeled_cases()


def test_corpus_is_large_enough() -> None:
    """The share of right answers means something."""
    assert len(FILES) >= 60
    assert len(CASES) >= 300
    assert len({each.name for each in CASES}) == len(CASES)


def test_trigger_is_proven_for_just_the_files_that_test_on_it() -> None:
    """P1: never "tested" where it may not be; and no ordinary workflow loses its push for want of a proof."""
    for labeled in CASES:
        choice = choose_trigger(labeled.files, labeled.required, CANDIDATE, Candidates.AUTO)
        claimed = {each.trigger for each in choice.answers if each.runs}
        assert claimed == {trigger for trigger, tested in labeled.tested.items() if tested}, choice.answers


def test_answer_is_never_tested_where_github_tests_nothing() -> None:
    """IMQ relies on a trigger only where every required check runs; an unknown one is no proof."""
    for labeled in FILES:
        choice = choose_trigger(labeled.files, labeled.required, CANDIDATE, Candidates.AUTO)
        claimed = {each.trigger for each in choice.answers if each.runs}
        assert claimed <= {trigger for trigger, tested in labeled.tested.items() if tested}, labeled


def test_trigger_is_the_right_one_for_nearly_all_files() -> None:
    """At most one in twenty repositories gets another trigger than the best one."""
    wrong = {}
    for labeled in FILES:
        choice = choose_trigger(labeled.files, labeled.required, CANDIDATE, Candidates.AUTO)
        right = labeled.trigger
        proven = right is not None and labeled.tested[right] is True
        if (choice.trigger, choice.proven) != (right, proven):
            wrong[labeled.name] = choice.trigger, choice.proven, right
    assert len(wrong) <= len(FILES) // 20, wrong


CI = ".github/workflows/ci.yml"
TEST = frozenset({RequiredCheck("test", None)})


def lines(text: str) -> list[str]:
    choice = choose_trigger({CI: text}, TEST, CANDIDATE, Candidates.AUTO)
    return [line for each in choice.lines for line in each.lines]


def test_lines_add_a_push_to_candidates_branches() -> None:
    """A maintainer copies them into the workflow."""
    assert lines("on: pull_request\njobs: {test: {}}") == ["on:", "  push:", "    branches: ['imq/**']"]


def test_lines_keep_the_branches_that_the_workflow_has() -> None:
    """The workflow still runs where it ran."""
    text = "on: {push: {branches: [main, 'v*']}, pull_request: }\njobs: {test: {}}"
    assert lines(text)[-1] == "    branches: [main, 'v*', 'imq/**']"
    text = "on: {push: {branches-ignore: ['*/**']}, pull_request: }\njobs: {test: {}}"
    assert lines(text)[-1] == "    branches: ['**', '!*/**', 'imq/**']"


@pytest.mark.parametrize(
    ("push", "wanted"),
    [
        ("push", "branches-ignore: ['imq-build/**']"),
        ("{push: {branches: ['**']}}", "branches: ['**', '!imq-build/**']"),
        ("{push: {branches-ignore: ['docs/**']}}", "branches-ignore: ['docs/**', 'imq-build/**']"),
        ("{push: {branches: [main, 'imq/**']}}", None),
        ("{push: {branches: ['**', '!imq-build/**']}}", None),
        ("pull_request", None),
    ],
)
def test_workflow_that_runs_while_a_candidate_is_built_comes_with_lines_against_it(
    push: str, wanted: str | None
) -> None:
    """P7: IMQ pushes once for each member, and CI would run as often. With the lines it does not."""
    text = f"on: {push}\njobs: {{test: {{}}}}"
    choice = choose_trigger({CI: text}, TEST, CANDIDATE, Candidates.AUTO)
    against = [line for each in choice.on_builds for line in each.lines]
    assert against == ([] if wanted is None else ["on:", "  push:", f"    {wanted}"])
    if wanted is not None:
        changed = f"on: {{push: {{{wanted}}}}}\njobs: {{test: {{}}}}"
        choice = choose_trigger({CI: changed}, TEST, CANDIDATE, Candidates.AUTO)
        assert (choice.on_builds, choice.trigger) == ((), CandidateTrigger.PUSH)


def test_lines_open_the_condition_of_a_job() -> None:
    """The job runs on candidates, and elsewhere as before."""
    text = "on: [push, pull_request]\njobs: {test: {if: github.event_name == 'pull_request'}}"
    assert lines(text) == [
        "jobs:",
        "  test:",
        "    if: (github.event_name == 'pull_request') || startsWith(github.ref, 'refs/heads/imq/')",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "on: pull_request\njobs: {test: {}}",
        "on: {push: {branches: [main]}, pull_request: }\njobs: {test: {}}",
        "on: {push: {branches-ignore: ['*/**']}, pull_request: }\njobs: {test: {}}",
        "on: [push, pull_request]\njobs: {test: {if: github.event_name == 'pull_request'}}",
        "on: pull_request\njobs: {test: {if: \"github.actor == 'octocat'\"}}",
    ],
)
def test_workflow_with_the_lines_added_runs_on_a_push(text: str) -> None:
    """The advice works: with these lines, IMQ chooses a push."""
    changed = _with_lines(text, lines(text))
    choice = choose_trigger({CI: changed}, TEST, CANDIDATE, Candidates.AUTO)
    assert (choice.trigger, choice.proven) == (CandidateTrigger.PUSH, True)


def _with_lines(text: str, added: list[str]) -> str:
    """Replace the parts that the lines name, as a maintainer does."""
    value = parse(text).value
    for part in ("on", "jobs"):
        found = parse("\n".join(_section(added, part))).value if _section(added, part) else None
        if found is None:
            continue
        if part == "on":
            events = value["on"]
            known = {events: None} if isinstance(events, str) else events
            known = dict.fromkeys(known) if isinstance(known, list) else known
            value["on"] = {**known, **found["on"]}
        else:
            value["jobs"]["test"].update(found["jobs"]["test"])
    return json.dumps(value)


def _section(added: list[str], part: str) -> list[str]:
    if f"{part}:" not in added:
        return []
    start = added.index(f"{part}:")
    end = next((place for place, line in enumerate(added) if place > start and not line.startswith(" ")), len(added))
    return added[start:end]


def test_wanted_trigger_is_chosen_even_if_only_a_train_can_show_that_it_works() -> None:
    """A configuration that names a trigger is followed, unless a required check surely does not run."""
    text = "on: [push, pull_request]\njobs: {test: {if: vars.A}}"
    unproven = choose_trigger({CI: text}, TEST, CANDIDATE, Candidates.PULL_REQUEST)
    assert (unproven.trigger, unproven.proven) == (CandidateTrigger.PULL_REQUEST, False)
    refused = choose_trigger({CI: text}, TEST, CANDIDATE, Candidates.DISPATCH)
    assert (refused.trigger, refused.proven) == (None, False)


@pytest.mark.parametrize(
    ("job", "wanted", "tried"),
    [
        ("{if: vars.A}", Candidates.PUSH, True),
        ("{environment: staging}", Candidates.PUSH, True),
        ("{steps: [{uses: acme/test@v1}]}", Candidates.PUSH, False),
        ("{steps: [{uses: acme/test@v1}]}", Candidates.PULL_REQUEST, True),
        ("{environment: staging, steps: [{uses: acme/test@v1}]}", Candidates.PUSH, False),
        ("{if: always(), needs: [a]}\n  a: {environment: staging}", Candidates.PUSH, False),
        ("{if: always(), needs: [a]}\n  a: {if: '!github.event.pull_request.draft'}", Candidates.PULL_REQUEST, False),
        ("{uses: acme/ci/.github/workflows/test.yml@v1}", Candidates.PULL_REQUEST, True),
    ],
    ids=["condition", "environment", "step", "step_of_draft", "both", "gate", "gate_of_draft", "call_of_draft"],
)
def test_trigger_is_tried_only_if_the_try_shows_what_is_unknown(job: str, wanted: Candidates, tried: bool) -> None:
    """P1: a skipped check is seen, one that is green without its test is not, whatever the configuration says."""
    text = f"on: [push, pull_request]\njobs:\n  test: {job}"
    required = frozenset({RequiredCheck("test / unit" if "acme/ci" in job else "test", None)})
    assert (choose_trigger({CI: text}, required, CANDIDATE, wanted).trigger is not None) is tried


def test_answers_name_the_check_and_why_it_does_not_run() -> None:
    """A maintainer finds the line to change."""
    text = "on: {push: {branches: [main]}}\njobs: {test: {}}"
    push, pull_request, dispatch = choose_trigger({CI: text}, TEST, CANDIDATE, Candidates.AUTO).answers
    assert push.reasons == (f"`test`: `{CI}` does not run on `push` for the branch `imq/main/1`",)
    assert pull_request.reasons == (f"`test`: `{CI}` does not run on `pull_request`",)
    assert dispatch.reasons == (f"`test`: `{CI}` does not run on `workflow_dispatch`",)


def test_dispatch_names_the_workflows_with_required_checks() -> None:
    """IMQ dispatches these, and no others."""
    files = {
        CI: "on: workflow_dispatch\njobs: {test: {}}",
        ".github/workflows/x.yml": "on: workflow_dispatch\njobs: {x: {}}",
    }
    choice = choose_trigger(files, TEST, CANDIDATE, Candidates.AUTO)
    assert (choice.trigger, choice.workflows) == (CandidateTrigger.DISPATCH, (CI,))


def test_repository_without_workflows_waits_for_the_first_train() -> None:
    """Another CI provider may run on pushes, too, but IMQ cannot read its rules: a draft starts nearly all CI."""
    choice = choose_trigger({}, TEST, CANDIDATE, Candidates.AUTO)
    assert (choice.trigger, choice.proven) == (CandidateTrigger.PULL_REQUEST, False)


OTHER = ".github/workflows/other.yml"
ON_MAIN = "on: {push: {branches: [main]}, pull_request: }\njobs: {test: {}}"


@pytest.mark.parametrize(
    ("text", "other", "runs"),
    [
        ("on: [push, pull_request]\njobs: {test: {}}", ON_MAIN, None),
        ("on: [push, pull_request]\njobs: {test: {}}", "on: {push: {branches: [main]}}\njobs: {test: {}}", True),
        ("on: [push, pull_request]\njobs: {t: {name: '${{ vars.N }}', if: vars.A}}", None, None),
        ("on: {push: {branches: ['imq/**'], tags: ['v*']}}\njobs: {test: {}}", None, True),
        ("on: {push: {tags: ['v*']}}\njobs: {test: {}}", None, False),
        ("on: {push: {branches-ignore: ['[']}}\njobs: {test: {}}", None, None),
    ],
    ids=["one_of_two", "other_not_on_pulls", "computed_name", "tags_too", "tags_only", "unread_pattern"],
)
def test_push_is_proved_only_if_each_job_of_the_check_runs(text: str, other: str | None, runs: bool | None) -> None:
    """P1: a check with the name of two jobs passes on a candidate although one of them has not run."""
    files = {CI: text} | ({} if other is None else {OTHER: other})
    assert choose_trigger(files, TEST, CANDIDATE, Candidates.AUTO).answers[0].runs is runs


@pytest.mark.parametrize(
    ("event", "runs"),
    [
        ("{workflow_dispatch: {inputs: {a: {required: true, default: x}}}}", True),
        ("{workflow_dispatch: {inputs: {a: {required: true}}}}", False),
        ("{workflow_dispatch: {inputs: {a: {required: false}}}}", True),
    ],
)
def test_dispatch_gives_no_input_that_a_workflow_requires(event: str, runs: bool) -> None:
    """GitHub would refuse the dispatch of each candidate; on another branch than the default one it may."""
    text = f"on: {event}\njobs: {{test: {{}}}}"
    answers = choose_trigger({CI: text}, TEST, CANDIDATE, Candidates.AUTO).answers
    assert answers[2].runs is runs
    elsewhere = replace(CANDIDATE, base_branch="release", branch="imq/release/1")
    answers = choose_trigger({CI: text}, TEST, elsewhere, Candidates.AUTO).answers
    assert answers[2].runs is (None if runs else False)


def test_group_that_is_shared_by_no_pull_requests_makes_no_check_doubtful() -> None:
    """Without required checks those of an ordinary pull request count, and each of these has a group of its own."""
    group = "concurrency: {group: '${{ github.event.pull_request.number || github.sha }}', cancel-in-progress: true}"
    text = f"on: {{push: {{branches: [main]}}, pull_request: }}\n{group}\njobs: {{test: {{}}}}"
    push, pull_request, _ = choose_trigger({CI: text}, (), CANDIDATE, Candidates.AUTO).answers
    assert (push.runs, pull_request.runs) == (False, True)


def test_draft_does_not_prove_that_a_workflow_of_the_base_tests_it() -> None:
    """`pull_request_target` checks the base out, unless its steps say otherwise."""
    text = "on: pull_request_target\njobs: {test: {}}"
    assert choose_trigger({CI: text}, TEST, CANDIDATE, Candidates.AUTO).answers[1].runs is None


def test_dispatch_leaves_out_a_workflow_that_only_may_have_the_check() -> None:
    """P7: it would start CI runs that no required check needs."""
    files = {
        CI: "on: workflow_dispatch\njobs: {test: {}}",
        OTHER: "on: workflow_dispatch\njobs: {x: {name: '${{ vars.N }}'}}",
    }
    assert choose_trigger(files, TEST, CANDIDATE, Candidates.DISPATCH).workflows == (CI,)
