import pytest

from conftest import refuse_skip


def report(outcome: str) -> pytest.TestReport:
    return pytest.TestReport("a test", ("a.py", 1, "a test"), {}, outcome, "no such component", "setup")  # type: ignore[arg-type]


def test_skip_on_a_machine_that_counts_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Continuous integration cannot pass by leaving out what it cannot start."""
    monkeypatch.setenv("IMQ_TEST_NO_SKIPS", "1")
    skipped, passed = report("skipped"), report("passed")
    for each in (skipped, passed):
        refuse_skip(each)
    assert skipped.failed
    assert "no such component" in str(skipped.longrepr)
    assert passed.passed


def test_skip_on_any_other_machine_is_a_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has no PostgreSQL can still run the rest."""
    monkeypatch.delenv("IMQ_TEST_NO_SKIPS", raising=False)
    skipped = report("skipped")
    refuse_skip(skipped)
    assert skipped.skipped
