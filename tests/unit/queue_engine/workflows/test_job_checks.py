"""Which checks workflow files report for an event, and which of their jobs run.

What steps read is in `cases`.
"""

import json
from collections.abc import Mapping
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_engine.workflows import event_marks, expressions, workflow_file
from queue_engine.workflows.event_context import WorkflowEvent
from queue_engine.workflows.job_checks import filtered_checks, job_checks
from queue_engine.workflows.step_proof import local_actions
from queue_engine.workflows.workflow_file import read_actions, read_workflow, read_workflows
from tests.unit.queue_engine.workflows.labeled import CANDIDATE

CI = ".github/workflows/ci.yml"


def runs(text: str, event: WorkflowEvent = WorkflowEvent.PUSH) -> Mapping[str | None, bool | None]:
    """Whether the job of each check runs."""
    return {each.name.known: each.runs for each in job_checks(read_workflows({CI: text}), event, CANDIDATE)}


def test_read_workflow_takes_on_for_a_key() -> None:
    """YAML 1.1 reads `on` as true; GitHub does not."""
    assert list(read_workflow(CI, "on: push\njobs: {test: {}}").events) == ["push"]


def test_read_workflows_leaves_other_files_out() -> None:
    """GitHub reads no subfolder, and no file of another kind."""
    text = "on: push\njobs: {test: {}}"
    files = {".github/workflows/deep/ci.yml": text, ".github/workflows/README.md": "", CI: text}
    assert list(read_workflows(files)) == [CI]


def test_faulty_workflow_says_why_it_cannot_be_read() -> None:
    """The reason of an unknown answer names the line."""
    (check,) = job_checks(
        read_workflows({CI: "on: push\njobs: {a: &a {}, b: {<<: *a}}"}), WorkflowEvent.PUSH, CANDIDATE
    )
    assert check.runs is None
    assert check.why == f"IMQ cannot read `{CI}`: line 2: Merge keys (<<) are not supported: write the keys out."


def test_called_workflow_that_calls_itself_ends() -> None:
    """A circle of calls, which GitHub refuses, makes no endless work."""
    text = f"on: [push, workflow_call]\njobs: {{again: {{uses: ./{CI}}}}}"
    assert None in runs(text).values()


def test_jobs_that_need_each_other_are_unknown() -> None:
    """GitHub refuses such a file."""
    assert runs("on: push\njobs: {a: {needs: b}, b: {needs: a}}") == {"a": None, "b": None}


def test_name_longer_than_github_shows_is_unknown() -> None:
    """GitHub shortens it, so no required check has it."""
    long = "x" * 101
    assert runs(f"on: push\njobs: {{a: {{name: {long}}}}}") == {None: True}


def test_workflows_that_call_each_other_without_end_are_unknown_at_once() -> None:
    """P5: ten calls in each of ten files, ten deep, mean ten thousand million jobs; IMQ looks at 2,000 checks."""
    files = {".github/workflows/w0.yml": "on: push\n" + _calls(1)}
    for depth in range(1, 10):
        files[f".github/workflows/w{depth}.yml"] = "on: workflow_call\n" + _calls(depth + 1)
    files[".github/workflows/w10.yml"] = "on: workflow_call\njobs: {test: {steps: [{run: make}]}}"
    (check,) = job_checks(read_workflows(files), WorkflowEvent.PUSH, CANDIDATE)
    assert (check.name.known, check.runs) == (None, None)
    gate = "  gate: {needs: [j0, j9], if: always()}\n"
    files[".github/workflows/w0.yml"] += gate
    (check,) = job_checks(read_workflows(files), WorkflowEvent.PUSH, CANDIDATE)
    assert check.runs is None


def _calls(called: int) -> str:
    calls = (f"  j{place}: {{uses: ./.github/workflows/w{called}.yml, with: {{n: {place}}}}}\n" for place in range(10))
    return "jobs:\n" + "".join(calls)


def test_actions_that_use_each_other_without_end_are_unknown_at_once() -> None:
    """P5: the same with composite actions: IMQ looks at 20,000 steps."""
    steps = [f"{{uses: ./a{depth}}}" for depth in range(1, 10)]
    actions = {
        f"a{depth}/action.yml": f"runs: {{using: composite, steps: [{', '.join([steps[depth]] * 10)}]}}"
        for depth in range(9)
    }
    last = {"a9/action.yml": "runs: {using: composite, steps: [{run: make, shell: sh}]}"}
    files = read_workflows({CI: "on: push\njobs: {test: {steps: [{uses: ./a0}]}}"})
    (check,) = job_checks(files, WorkflowEvent.PUSH, CANDIDATE, read_actions(actions | last))
    assert check.runs is None


def test_outputs_with_many_readers_are_judged_once() -> None:
    """P5: 250 long outputs of which 300 jobs may read took minutes."""
    written = "${{ " + " || ".join(["needs.plan.outputs.x"] * 80) + " }}"
    outputs = ", ".join(f"o{place}: '{written}'" for place in range(250))
    readers = "\n".join(f"  j{place}: {{needs: plan, steps: [{{run: make}}]}}" for place in range(300))
    with patch.object(event_marks, "read", wraps=expressions.read) as read:
        found = runs(f"on: push\njobs:\n  plan: {{outputs: {{{outputs}}}, steps: [{{run: make}}]}}\n{readers}\n")
    assert set(found.values()) == {True}
    assert read.call_count < 1_000


def test_long_chain_of_jobs_is_followed_to_its_end() -> None:
    """Jobs in the order that suits least; the last one decides for all."""
    chain = [f"  j{place:04}: {{needs: j{place + 1:04}}}" for place in range(140)]
    text = "on: push\njobs:\n" + "\n".join(chain) + "\n  j0140: {steps: [{run: 'test $GITHUB_HEAD_REF'}]}\n"
    assert set(runs(text).values()) == {None}
    assert set(runs(text.replace("$GITHUB_HEAD_REF", "-d src")).values()) == {True}


def test_file_of_half_a_mebibyte_is_read_and_a_longer_one_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such files exist; GitHub shows no longer ones whole."""
    text = "on: push\njobs: {test: {steps: [{run: make}]}}\n"
    assert runs(text + "#" * (512 * 1024 - len(text))) == {"test": True}
    assert runs(text + "#" * (512 * 1024)) == {None: None}
    monkeypatch.setattr(workflow_file, "_LONGEST_TOGETHER", 3 * len(text))
    many = {f".github/workflows/{place}.yml": text for place in range(4)}
    assert [each.fault is None for each in read_workflows(many).values()] == [True, True, True, False]


def test_hostile_texts_take_linear_time() -> None:
    """P5: braces that never end, and lines that a pattern could be lost in."""
    texts = (
        "${{ " * 20_000,
        "${{ " + "a'b'}" * 20_000,
        "${{ " + "a'" * 20_001,
        "case x in" + " " * 19_000,
        "case x in (" + "a'b'" * 4_000,
        "case x in " + "a'" * 9_001,
        "git -c " * 2_000,
        "git ${{ '" * 5_000,
        "x~ " * 20_000,
        "echo " + "a" * 100_000,
        "$a/" * 30_000,
    )
    for text in texts:
        files = read_workflows({CI: json.dumps({"on": "push", "jobs": {"a": {"steps": [{"run": text}]}}})})
        assert len(job_checks(files, WorkflowEvent.PUSH, CANDIDATE)) == 1


def test_local_actions_are_found_wherever_they_are_used() -> None:
    """Both spellings, in workflows and in actions; a path that leaves the repository is none."""
    texts = ["steps: [{uses: ./ci/a}, {'uses': \"$/b\"}]", "- uses: ./ # root", "uses: ./../c", "uses: ./.github/d/"]
    assert local_actions(texts) == [
        f"{folder}{name}" for folder in ("", ".github/d/", "b/", "ci/a/") for name in ("action.yml", "action.yaml")
    ]


_GUARDS = st.sampled_from(
    [None, "vars.a", "!vars.a", "vars.b", "vars.a && vars.b", "true", "false", "always() && vars.b"]
)
_JOBS = st.lists(st.tuples(_GUARDS, st.sets(st.integers(0, 3), max_size=2)), min_size=1, max_size=4)


@given(_JOBS)
def test_job_that_runs_by_the_file_runs_for_all_values_of_the_unknown_variables(
    jobs: list[tuple[str | None, set[int]]],
) -> None:
    """Never wrong towards tested: GitHub's rules, played through for all values, agree with each answer of yes."""
    found = runs(_workflow(jobs))
    for a, b in ((a, b) for a in (False, True) for b in (False, True)):
        ran = _played(jobs, a, b)
        for place in range(len(jobs)):
            assert found[f"job{place}"] in (None, ran[place])


def _workflow(jobs: list[tuple[str | None, set[int]]]) -> str:
    lines = ["on: push", "jobs:"]
    for place, (condition, needs) in enumerate(jobs):
        before = [f"job{each}" for each in sorted(needs) if each < place]
        lines += [f"  job{place}:", f"    needs: [{', '.join(before)}]"]
        lines += [] if condition is None else [f"    if: ${{{{ {condition} }}}}"]
    return "\n".join(lines)


def _played(jobs: list[tuple[str | None, set[int]]], a: bool, b: bool) -> list[bool]:
    """Play a run in which each job that runs succeeds."""
    holds = {
        None: True,
        "vars.a": a,
        "!vars.a": not a,
        "vars.b": b,
        "vars.a && vars.b": a and b,
        "true": True,
        "false": False,
        "always() && vars.b": b,
    }
    ran: list[bool] = []
    before: list[set[int]] = []
    for place, (condition, needs) in enumerate(jobs):
        direct = {each for each in needs if each < place}
        every = direct.union(*(before[each] for each in direct)) if direct else set()
        before.append(every)
        succeeded = all(ran[each] for each in every)
        always = condition is not None and condition.startswith("always()")
        ran.append(holds[condition] and (always or succeeded))
    return ran


FOUND = {"lint": ".github/workflows/a.yml"}
PATHS = "{pull_request: {paths: [src/**]}, push: {paths: [src/**]}}"


@pytest.mark.parametrize(
    ("events", "name", "found"),
    [
        ({"a": PATHS}, "lint", FOUND),
        ({"a": PATHS, "b": "merge_group"}, "lint", {}),
        ({"a": PATHS, "b": "{pull_request: {paths-ignore: [src/**]}}"}, "lint", {}),
        ({"a": "{pull_request: {paths: [src/**]}, push: {}}"}, "lint", {}),
        ({"a": "{pull_request: {paths: [x]}, push: {branches: [main]}}"}, "lint", FOUND),
        ({"a": "{pull_request: {paths: [x]}, push: {tags: [v*]}}"}, "lint", FOUND),
        ({"a": "{pull_request: {paths: [x]}, push: {tags: [v*], branches-ignore: [pages]}}"}, "lint", {}),
        ({"a": "{pull_request: {paths: [x]}, push: {branches: ['**']}}"}, "lint", {}),
        ({"a": "{pull_request: {paths: [x]}, push: {branches: ['**'], paths: [x]}}"}, "lint", FOUND),
        ({"a": "{pull_request_target: {paths: [x]}}"}, "lint", FOUND),
        ({"a": "{pull_request: {paths: [x]}, pull_request_target: {}}"}, "lint", {}),
        ({"a": "{push: {paths: [src/**]}}"}, "lint", {}),
        ({"a": PATHS}, "${{ vars.name }}", {}),
        ({"a": "pull_request"}, "lint", {}),
    ],
)
def test_check_is_filtered_if_one_file_alone_reports_it_and_changed_files_decide(
    events: dict[str, str], name: str, found: dict[str, str]
) -> None:
    """A second file may be for the other changes, and so may an event without a filter."""
    job = f"jobs: {{lint: {{name: '{name}', runs-on: x, steps: [{{run: x}}]}}}}"
    texts = {f".github/workflows/{file}.yml": f"on: {each}\n{job}\n" for file, each in events.items()}
    assert filtered_checks(read_workflows(texts), CANDIDATE) == found


def test_check_is_not_filtered_if_a_job_with_a_computed_name_may_report_it() -> None:
    """What it reports is known on GitHub alone."""
    job = "jobs: {{lint: {{name: '{}', runs-on: x, steps: [{{run: x}}]}}}}"
    texts = {"a": f"on: {PATHS}\n{job.format('lint')}\n", "b": f"on: pull_request\n{job.format('${{ vars.name }}')}\n"}
    files = read_workflows({f".github/workflows/{name}.yml": text for name, text in texts.items()})
    assert filtered_checks(files, CANDIDATE) == {}
