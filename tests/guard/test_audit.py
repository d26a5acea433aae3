"""The verdict of `make audit` on what pip-audit reports."""

import pytest

from tests.guard.audit import Audit, verdict


def test_package_with_an_advisory_is_named_with_the_version_that_mends_it() -> None:
    """In pip-audit's own format."""
    found = {"id": "PYSEC-2021-142", "fix_versions": ["5.4"], "aliases": ["CVE-2020-14343"], "description": "..."}
    report = {
        "dependencies": [
            {"name": "pyyaml", "version": "5.3", "vulns": [found, {"id": "X-1", "fix_versions": []}]},
            {"name": "click", "version": "8.5.0", "vulns": []},
            {"name": "private", "skip_reason": "Dependency not found on PyPI and could not be audited"},
        ],
        "fixes": [],
    }
    assert verdict(report) == Audit(
        ("pyyaml 5.3: PYSEC-2021-142 (fixed in 5.4)", "pyyaml 5.3: X-1 (fixed in no version yet)"), ("private",), 2
    )


def test_audit_that_could_ask_about_no_package_was_impossible() -> None:
    """No finding is no proof where the advisories were out of reach."""
    skipped = {"name": "click", "skip_reason": "Dependency not found on PyPI and could not be audited: click (8.5.0)"}
    assert not verdict({"dependencies": [skipped]}).possible
    with pytest.raises(KeyError):
        verdict({})
