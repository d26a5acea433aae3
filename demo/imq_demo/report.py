"""Print the result: landed pull requests, causes of the others, the base's history, times, verdict, requests."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from rich.console import Console
from rich.table import Table
from rich.text import Text

from github_emulator import PullRequestHandle
from imq_demo import comments, figures, project
from imq_demo.environment import BASE, LABEL, Environment
from imq_demo.observe import ObservedPullRequest
from imq_demo.scenario_runner import ScenarioRunner
from imq_demo.verdict import BaseCommit, Verdict, judge


def verdict_of(runner: ScenarioRunner) -> Verdict:
    """Check the promises against the current state and the requests that GitHub refused."""
    verdict = judge(base_of(runner.environment), runner.observed(), runner.numbers(), branch=BASE, label=LABEL)
    refused = [f"GitHub answered {answer}" for answer in figures.refused(runner.environment.server.requests)]
    return Verdict((*verdict.problems, *refused))


def base_of(environment: Environment) -> list[BaseCommit]:
    """Return each commit of the base during the demo, oldest first, with the result of its checks."""
    git = environment.repository.record.git
    found: list[BaseCommit] = []
    sha = environment.repository.sha(BASE)
    while sha != environment.start:
        commit = git.must(sha)
        found.append(BaseCommit(sha, commit.title, project.is_green(git.files(sha))))
        # The first parent of a commit on the base is where the base stood before.
        sha = commit.parents[0]
    return found[::-1]


async def show(console: Console, runner: ScenarioRunner, verdict: Verdict, took: timedelta) -> None:
    """Print tables, history, times and the verdict; the requests come last."""
    pulls = {pull.number: pull for pull in runner.pulls.values()}
    merged = [pull for pull in pulls.values() if pull.merged]
    console.print()
    console.print(_landed(merged))
    console.print(_not_landed([pull for pull in runner.observed() if not pull.merged]))
    console.print(Text(f"\ngit log --graph --oneline --decorate {BASE}", style="bold"))
    console.print(Text(await _graph(runner.environment)), highlight=False)
    console.print(f"\n{len(merged)} of {len(pulls)} pull requests landed in {took.total_seconds():.0f} s.")
    _show_times(console, runner.environment, pulls)
    if verdict.problems:
        console.print(Text("Verdict: not as promised.", style="bold red"))
        for problem in verdict.problems:
            console.print(Text(f"  - {problem}"))
    else:
        green = f"{BASE} was green at every commit, every good pull request landed, and each other one says why."
        console.print(Text(f"Verdict: {green}", style="bold green"))
    console.print(_requests(runner.environment, len(merged)))


def _landed(pulls: Sequence[PullRequestHandle]) -> Table:
    table = Table("PR", "title", "author", "commit", "at", title="Landed", title_justify="left")
    for pull in sorted(pulls, key=_merged_at):
        commit, at = (pull.merge_sha or "")[:7], f"{_merged_at(pull):%H:%M:%S}"
        table.add_row(f"#{pull.number}", Text(pull.record.title), pull.record.author.login, commit, at)
    return table


def _not_landed(pulls: Sequence[ObservedPullRequest]) -> Table:
    table = Table("PR", "title", "why, in its comment's words", title="Did not land", title_justify="left")
    for pull in sorted(pulls, key=lambda pull: pull.number):
        why = comments.why(pull.comments[-1]) if pull.comments else "it has no comment"
        table.add_row(f"#{pull.number}", Text(pull.title), Text(why))
    return table


async def _graph(environment: Environment) -> str:
    """Return git's graph of the base since shortly before the scenario."""
    arguments = ("log", "--graph", "--oneline", "--decorate", "--decorate-refs=refs/heads", "--no-color")
    process = await asyncio.create_subprocess_exec(
        "git",
        f"--git-dir={environment.repository.record.git.path}",
        *arguments,
        f"{environment.past[-4]}..{BASE}",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return output.decode(errors="replace").rstrip()


def _requests(environment: Environment, merged: int) -> Table:
    """Return how often each request was sent, the most frequent first."""
    counts: Counter[str] = environment.server.requests.by_template()
    table = Table("request", "count", "per merge", title="Requests to GitHub", title_justify="left")
    for template, count in counts.most_common():
        name = Text(template.replace("/repos/{owner}/{repo}", "..."))
        table.add_row(name, str(count), figures.per_merge(count, merged))
    table.add_section()
    table.add_row("all", str(counts.total()), figures.per_merge(counts.total(), merged), style="bold")
    return table


def _show_times(console: Console, environment: Environment, pulls: Mapping[int, PullRequestHandle]) -> None:
    costs = figures.requests_by_pull(environment.server.requests, _numbers_by_id(environment, pulls))
    landed = [costs[number] for number, pull in pulls.items() if pull.merged]
    if landed:
        console.print(f"A pull request that landed took {min(landed)} to {max(landed)} requests of its own.")
    took = _reactions(environment, pulls)
    middle = figures.median(took)
    if middle is not None:
        console.print(
            f"From the last required check to the merge request: median {_ms(middle)}, "
            f"at most {_ms(max(took))} ({len(took)} landings)."
        )


def _reactions(environment: Environment, pulls: Mapping[int, PullRequestHandle]) -> list[timedelta]:
    merges = figures.merge_requests(environment.server.requests)
    checks, repository = environment.github.checks, environment.repository.record
    reports: dict[int, datetime] = {}
    since: dict[int, datetime] = {}
    previous = None
    for number, merged_at in sorted(merges.items(), key=lambda item: item[1]):
        pull = pulls[number]
        statuses = checks.latest_statuses(repository, pull.head_sha)
        report = figures.last_report(pull.check_runs, statuses, project.CHECKS)
        if report is not None:
            reports[number] = report
        labeled = max(event.created_at for event in pull.events if event.event == "labeled")
        since[number] = max(labeled, previous or labeled)
        previous = merged_at
    return figures.reactions(merges, reports, since, environment.speed)


def _numbers_by_id(environment: Environment, pulls: Mapping[int, PullRequestHandle]) -> dict[str, int]:
    """Return the number of the pull request of each commit, comment and check run, by SHA or id."""
    git = environment.repository.record.git
    known: dict[str, int] = {}
    for number, pull in pulls.items():
        known |= {str(comment.id): number for comment in pull.comments}
        sha = pull.head_sha
        # The first parent of an update is the old head, so first parents lead to every earlier head.
        while sha not in environment.past:
            known[sha] = number
            sha = git.must(sha).parents[0]
    for run in environment.repository.record.runs.values():
        if run.head_sha in known:
            known[str(run.id)] = known[run.head_sha]
    return known


def _ms(time: timedelta) -> str:
    return f"{time.total_seconds() * 1000:.0f} ms"


def _merged_at(pull: PullRequestHandle) -> datetime:
    merged_at = pull.record.merged_at
    assert merged_at is not None, "only what has landed is listed"
    return merged_at
