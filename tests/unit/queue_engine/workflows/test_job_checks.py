"""Which checks workflow files report for an event, and which of their jobs run.

Covers `queue_engine/workflows/workflow_file.py`, `queue_engine/workflows/workflow_trigger.py`,
`queue_engine/workflows/check_names.py`, `queue_engine/workflows/concurrency.py`,
`queue_engine/workflows/skipped_steps.py`, `queue_engine/workflows/event_steps.py` and
`queue_engine/workflows/step_values.py`.
"""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from queue_engine.workflows.event_context import WorkflowEvent
from queue_engine.workflows.job_checks import job_checks
from queue_engine.workflows.workflow_file import read_workflow, read_workflows
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
