"""What an ejection names for programs: a link for each workflow run, and the jobs that failed."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from queue_engine.domain.facts import CheckReport, CheckState, FailingCheck, as_data
from queue_engine.rules.checks import failing_checks
from tests.unit.queue_engine.examples import report

RUN = "https://github.com/acme/widgets/actions/runs/7"


def job(name: str, run: int, state: CheckState = CheckState.FAILED, url: str | None = None) -> CheckReport:
    link = url or f"https://github.com/acme/widgets/actions/runs/{run}/job/{len(name)}"
    return replace(report(name, state, run=run, workflow=run), url=link)


def test_jobs_of_one_workflow_run_share_its_link() -> None:
    """Two required jobs of a run are one failing check, and another run is a second one."""
    failed = (job("lint", 7), job("test", 7), job("docs", 8))
    assert failing_checks(failed, failed) == (
        FailingCheck("lint", RUN, ("lint", "test")),
        FailingCheck("docs", RUN.replace("7", "8"), ("docs",)),
    )


def test_required_job_that_waits_for_others_names_the_jobs_that_failed() -> None:
    """A gate is all that is required; what a person has to look at are the jobs before it."""
    gate, broken, fine = job("gate", 7), job("test", 7), job("lint", 7, CheckState.PASSED)
    elsewhere = job("deploy", 8)
    found = failing_checks((gate,), (gate, broken, fine, elsewhere))
    assert found == (FailingCheck("gate", RUN, ("gate", "test")),)


def test_check_of_another_app_has_its_own_link_and_no_jobs() -> None:
    """Only GitHub Actions has jobs; what another App writes into its link is taken where it is one for a browser."""
    status = report("ci/external", CheckState.FAILED)
    bad = replace(report("ci/odd", CheckState.FAILED), url="javascript:alert(1)")
    copied = replace(report("ci/copy", CheckState.FAILED), url=f"{RUN}/job/1")
    assert failing_checks((status, bad, copied), None) == (
        FailingCheck("ci/external", "https://ci.example/ci/external"),
        FailingCheck("ci/odd", None),
        FailingCheck("ci/copy", f"{RUN}/job/1"),
    )


def test_job_that_an_older_server_links_keeps_that_link() -> None:
    """GitHub Enterprise Server once linked a job without its workflow run."""
    old = job("test", 7, url="https://ghe.example/acme/widgets/runs/99")
    assert failing_checks((old,), (old,)) == (
        FailingCheck("test", "https://ghe.example/acme/widgets/runs/99", ("test",)),
    )


@given(st.lists(st.tuples(st.integers(1, 40), st.text("abc", max_size=2)), max_size=120))
def test_data_of_an_event_is_bounded_and_is_read_as_it_was_written(jobs: list[tuple[int, str]]) -> None:
    """However many jobs fail, an event stays small; each workflow run stands there once."""
    failed = tuple(job(name, run) for run, name in jobs)
    found = failing_checks(failed, failed)
    assert len(found) <= 20
    assert len({each.url for each in found}) == len(found)
    assert FailingCheck.all_of({"failing": as_data(found)}) == found
    assert all(each.check in each.jobs for each in found)
