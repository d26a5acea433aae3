"""The checks of a commit, as GraphQL shows them: suites with their runs, or all in one word."""

from collections.abc import Callable, Mapping
from typing import Any

from github_emulator.facade.github import GitHub
from github_emulator.graphql.connections import Info, connection
from github_emulator.graphql.errors import not_accessible
from github_emulator.payloads import node_id
from github_emulator.state import CheckRun, CheckSuite, Repository


def rollup(github: GitHub, repository: Repository, sha: str, may: Callable[[str], bool]) -> dict[str, Any] | None:
    """`StatusCheckRollup`; None without any check."""
    if not (may("checks") and may("statuses") and github.behaviour.rollup_readable):
        raise not_accessible()
    state = github.checks.rollup(repository, sha, replaced=github.behaviour.rollup_counts_replaced)
    return None if state is None else {"state": state}


def suites(repository: Repository, sha: str, may: Callable[[str], bool]) -> Callable[..., dict[str, Any]]:
    """`checkSuites` of a commit, oldest first."""

    def resolve(info: Info, *, filterBy: Mapping[str, Any] | None = None, **bounds: Any) -> dict[str, Any]:  # noqa: N803
        if not may("checks"):
            raise not_accessible()
        wanted = filterBy or {}
        found = [
            suite
            for suite in repository.suites_by_sha.get(sha, ())
            if wanted.get("appId") in (None, suite.app.id)
            and wanted.get("checkName") in (None, *(run.name for run in suite.runs))
        ]
        return connection(found, _suite)(info, **bounds)

    return resolve


def _suite(suite: CheckSuite) -> dict[str, Any]:
    return {
        "id": node_id("CheckSuite", suite.id),
        "databaseId": suite.id,
        "status": suite.status.upper(),
        "conclusion": _upper(suite.conclusion),
        "checkRuns": lambda info, **given: _runs(suite, info, **given),
    }


def _runs(suite: CheckSuite, info: Info, *, filterBy: Mapping[str, Any] | None = None, **bounds: Any) -> dict[str, Any]:  # noqa: N803
    """Without `checkType` GitHub documents no default: all."""
    wanted = filterBy or {}
    conclusions = wanted.get("conclusions")
    statuses = wanted.get("statuses") or ([wanted["status"]] if wanted.get("status") else None)
    runs = {run.name: run for run in suite.runs}.values() if wanted.get("checkType") == "LATEST" else suite.runs
    found = [
        run
        for run in runs
        if wanted.get("appId") in (None, run.app.id)
        and wanted.get("checkName") in (None, run.name)
        and (conclusions is None or _upper(run.conclusion) in conclusions)
        and (statuses is None or run.status.upper() in statuses)
    ]
    return connection(found, _run)(info, **bounds)


def _run(run: CheckRun) -> dict[str, Any]:
    return {
        "id": node_id("CheckRun", run.id),
        "databaseId": run.id,
        "externalId": run.external_id,
        "name": run.name,
        "status": run.status.upper(),
        "conclusion": _upper(run.conclusion),
        "title": run.output.get("title"),
        "summary": run.output.get("summary"),
    }


def _upper(word: str | None) -> str | None:
    return None if word is None else word.upper()
