"""Print the result: landed pull requests, causes of the others, the base's history, figures, verdict."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bot.demo import comments, figures, project
from bot.demo.play import Play
from bot.demo.sight import PullSight
from bot.demo.stage import BASE, LABEL, Stage
from bot.demo.verdict import BaseCommit, Verdict, judge
from sandbox.facade.pull_request_handle import PullRequestHandle


def verdict_of(play: Play) -> Verdict:
    """The verdict on what is there now, and on what GitHub refused on the way."""
    verdict = judge(base_of(play.stage), play.seen(), play.numbers(), branch=BASE, label=LABEL)
    refused = [f"GitHub answered {answer}" for answer in figures.refused(play.stage.server.requests)]
    return Verdict((*verdict.problems, *refused))


def base_of(stage: Stage) -> list[BaseCommit]:
    """Return each commit that the base was at during the demo, oldest first, judged again by the CI's rules."""
    git = stage.repository.record.git
    found: list[BaseCommit] = []
    sha = stage.repository.sha(BASE)
    while sha != stage.start:
        commit = git.must(sha)
        found.append(BaseCommit(sha, commit.title, project.is_green(git.files(sha))))
        # The first parent of a commit on the base is where the base stood before.
        sha = commit.parents[0]
    return found[::-1]


async def show(console: Console, play: Play, verdict: Verdict, took: timedelta) -> None:
    """Print everything."""
    pulls = {pull.number: pull for pull in play.pulls.values()}
    merged = [pull for pull in pulls.values() if pull.merged]
    console.print()
    console.print(_landed(merged))
    console.print(_stayed_out([pull for pull in play.seen() if not pull.merged]))
    console.print(Text(f"\ngit log --graph --oneline --decorate {BASE}", style="bold"))
    console.print(Text(await _graph(play.stage)), highlight=False)
    _show_figures(console, play.stage, pulls)
    console.print(f"\n{len(merged)} of {len(pulls)} pull requests landed in {took.total_seconds():.0f} s.")
    if verdict.problems:
        console.print(Text("Verdict: not as promised.", style="bold red"))
        for problem in verdict.problems:
            console.print(Text(f"  - {problem}"))
    else:
        green = f"{BASE} was green at every commit, every good pull request landed, each other one was told why, once."
        console.print(Text(f"Verdict: {green}", style="bold green"))


def _landed(pulls: Sequence[PullRequestHandle]) -> Table:
    table = Table("PR", "title", "author", "commit", "at", title="Landed", title_justify="left")
    for pull in sorted(pulls, key=_merged_at):
        commit, at = (pull.merge_sha or "")[:7], f"{_merged_at(pull):%H:%M:%S}"
        table.add_row(f"#{pull.number}", Text(pull.record.title), pull.record.author.login, commit, at)
    return table


def _stayed_out(pulls: Sequence[PullSight]) -> Table:
    table = Table("PR", "title", "why, in its comment's words", title="Did not land", title_justify="left")
    for pull in sorted(pulls, key=lambda pull: pull.number):
        why = comments.why(pull.said[-1]) if pull.said else "it has no comment"
        table.add_row(f"#{pull.number}", Text(pull.title), Text(why))
    return table


async def _graph(stage: Stage) -> str:
    """The base's history since shortly before the story, drawn by git itself."""
    arguments = ("log", "--graph", "--oneline", "--decorate", "--decorate-refs=refs/heads", "--no-color")
    process = await asyncio.create_subprocess_exec(
        "git",
        f"--git-dir={stage.repository.record.git.path}",
        *arguments,
        f"{stage.past[-4]}..{BASE}",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return output.decode(errors="replace").rstrip()


def _show_figures(console: Console, stage: Stage, pulls: Mapping[int, PullRequestHandle]) -> None:
    merged = sum(pull.merged for pull in pulls.values())
    counts: Counter[str] = stage.server.requests.by_template()
    table = Table("request", "count", "per merge", title="Requests to GitHub", title_justify="left")
    for template, count in counts.most_common():
        name = Text(template.replace("/repos/{owner}/{repo}", "..."))
        table.add_row(name, str(count), figures.per_merge(count, merged))
    table.add_section()
    table.add_row("all", str(counts.total()), figures.per_merge(counts.total(), merged), style="bold")
    console.print(table)
    costs = figures.requests_by_pull(stage.server.requests, _known(stage, pulls))
    landed = [costs[number] for number, pull in pulls.items() if pull.merged]
    if landed:
        console.print(f"A pull request that landed took {min(landed)} to {max(landed)} requests of its own.")
    took = [reaction.took for reaction in _reactions(stage, pulls)]
    middle = figures.median(took)
    if middle is not None:
        console.print(
            f"From the last required check to the merge request: {_ms(middle)} in the middle, "
            f"{_ms(max(took))} at most (of {len(took)})."
        )


def _reactions(stage: Stage, pulls: Mapping[int, PullRequestHandle]) -> list[figures.Reaction]:
    merges = figures.merge_requests(stage.server.requests)
    checks, repository = stage.github.checks, stage.repository.record
    reports: dict[int, datetime] = {}
    since: dict[int, datetime] = {}
    previous = None
    for number, merged_at in sorted(merges.items(), key=lambda item: item[1]):
        pull = pulls[number]
        statuses = checks.latest_statuses(repository, pull.head_sha)
        report = figures.last_report(pull.check_runs, statuses, project.JUDGES)
        if report is not None:
            reports[number] = report
        labelled = max(event.created_at for event in pull.events if event.event == "labeled")
        since[number] = max(labelled, previous or labelled)
        previous = merged_at
    return figures.reactions(merges, reports, since, stage.speed)


def _known(stage: Stage, pulls: Mapping[int, PullRequestHandle]) -> dict[str, int]:
    """Whose each commit, comment and check run is, by SHA or id."""
    git = stage.repository.record.git
    known: dict[str, int] = {}
    for number, pull in pulls.items():
        known |= {str(comment.id): number for comment in pull.comments}
        sha = pull.head_sha
        # First parents lead from the head through every head before it: an update's first parent is the old head.
        while sha not in stage.past:
            known[sha] = number
            sha = git.must(sha).parents[0]
    for run in stage.repository.record.runs.values():
        if run.head_sha in known:
            known[str(run.id)] = known[run.head_sha]
    return known


def _ms(time: timedelta) -> str:
    return f"{time.total_seconds() * 1000:.0f} ms"


def _merged_at(pull: PullRequestHandle) -> datetime:
    merged_at = pull.record.merged_at
    assert merged_at is not None, "only what has landed is listed"
    return merged_at
