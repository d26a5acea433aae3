"""`imq status`, `imq why` and `imq effect`: show queues, why a pull request waits, and what a control would do."""

from typing import Any
from urllib.parse import quote, urlencode

import click

from bot.cli.author.clone import Clone, CloneError
from bot.cli.author.session import (
    AuthorCommand,
    Session,
    clone_or_stop,
    find_pull_request,
    open_session,
    repository_of_clone,
    repository_option,
    repository_path,
    server_option,
)
from bot.cli.author.terminal import details, queue_lines, say_line, state_line, state_word
from bot.cli.console import echo, echo_json, json_option, table


@click.command(cls=AuthorCommand)
@click.option("--branch", help="Show the queue of this base branch only.")
@repository_option
@server_option
@json_option
def status(branch: str | None, repository: str | None, server: str | None, as_json: bool) -> None:
    """Show the queues of a repository; outside of a clone, all busy queues that you may see."""
    session = open_session(server, as_json=as_json)
    clone = None if repository is not None else _clone()
    if repository is None and clone is None:
        if branch is not None:
            raise click.UsageError("--branch needs a clone or --repository.")
        _show_all(session)
        return
    name = repository or repository_of_clone(session, clone or Clone())
    branches = [branch] if branch is not None else _branches(session, name)
    found = [_queue(session, name, each) for each in branches]
    if as_json:
        echo_json(found[0] if branch is not None else {"repository": name, "queues": found})
        return
    if not found:
        echo(f"{name} has no queue yet: no pull request was queued.")
    for queue in found:
        for line in queue_lines(queue):
            say_line(line, next((each["status"] for each in queue["entries"] if f"#{each['number']} " in line), ""))


def _clone() -> Clone | None:
    try:
        return Clone()
    except CloneError:
        return None


def _branches(session: Session, repository: str) -> list[str]:
    answer = session.call("GET", f"{repository_path(repository)}/queues")
    session.refuse(answer)
    return [queue["base_branch"] for queue in answer.body["queues"]]


def _queue(session: Session, repository: str, branch: str) -> Any:
    answer = session.call("GET", f"{repository_path(repository)}/branches/{quote(branch, safe='')}/queue")
    session.refuse(answer)
    return answer.body


def _show_all(session: Session) -> None:
    """Show every busy queue, in one call."""
    answer = session.call("GET", "/queue/status")
    session.refuse(answer)
    if session.as_json:
        echo_json(answer.body)
        return
    rows = [
        (
            f"{each['repository']} {each['base_branch']}",
            f"{each['depth']} queued",
            f"{each['held']} waiting for room" if each["held"] else "",
            f"{each['not_ready']} not ready" if each.get("not_ready") else "",
            f"blocked: {each['blocker']}" if each["blocker"] else "",
        )
        for each in answer.body["queues"]
    ]
    for line in table(rows):
        say_line(line.strip(), "")
    if not rows:
        echo("No queue that you may see has pull requests.")


@click.command(cls=AuthorCommand)
@click.argument("name", required=False)
@click.option("--kind", type=click.Choice(["check", "job", "test"]), default="check", help="What NAME is.")
@click.option("--branch", help="Only of the queue of this base branch.")
@repository_option
@server_option
@json_option
def flaky(
    name: str | None, kind: str, branch: str | None, repository: str | None, server: str | None, as_json: bool
) -> None:
    """Show the flaky checks of the last 30 days, or the text of an issue about NAME."""
    session = open_session(server, as_json=as_json)
    where = repository or repository_of_clone(session, clone_or_stop())
    found = []
    for each in [branch] if branch is not None else _branches(session, where):
        path = f"{repository_path(where)}/branches/{quote(each, safe='')}/statistics"
        ending = "" if name is None else f"/issue?kind={kind}&name={quote(name, safe='')}"
        answer = session.call("GET", path + ending)
        if name is not None and answer.status == _ABSENT and branch is None:
            continue
        session.refuse(answer)
        found.append((each, answer.body))
    if as_json:
        bodies = [body for _, body in found]
        echo_json(bodies[0] if branch is not None else {"repository": where, "queues": bodies})
        return
    rows = [(each, check["name"], *_flakes(check)) for each, body in found for check in body.get("flaky_checks", ())]
    issues = [f"{body['title']}\n\n{body['body']}" for _, body in found if name is not None]
    for line in issues or [row.strip() for row in table(rows)]:
        echo(line)
    if not issues and not rows:
        echo(f"No {kind}{'' if name is None else f' {name}'} was flaky in the last 30 days.")


_ABSENT = 404


def _flakes(found: Any) -> tuple[str, ...]:
    """Format the figures of a flaky check."""
    rate = "" if found["rate"] is None else f"fails {found['rate']:.1%} of {found['runs']} runs"
    listed = "" if found["listed_until"] is None else f"listed until {found['listed_until']}"
    return rate, f"delayed {found['pulls']}, {found['pulls_before']} before", listed


@click.command(cls=AuthorCommand)
@click.argument("number", type=click.IntRange(min=1), required=False)
@repository_option
@server_option
@json_option
def why(number: int | None, repository: str | None, server: str | None, as_json: bool) -> None:
    """Show why a pull request waits: NUMBER, or the one of the branch that is checked out."""
    session = open_session(server, as_json=as_json)
    found = find_pull_request(session, number, repository)
    answer = session.call("GET", f"{found.path}/queue")
    session.refuse(answer)
    if as_json:
        echo_json(answer.body)
        return
    say_line(f"{found.name} {state_line(answer.body)}", state_word(answer.body))
    for line in details(answer.body):
        echo(line)


_OF_QUEUE = ("pause", "freeze", "hotfix")


@click.command(cls=AuthorCommand)
@click.argument("do", type=click.Choice(["dequeue", "requeue", "priority", *_OF_QUEUE]))
@click.argument("number", type=click.IntRange(min=1), required=False)
@click.option("--priority", default="high", show_default=True, help="With priority: the one that it would get.")
@click.option("--branch", help="With pause, freeze and hotfix: the base branch.")
@repository_option
@server_option
@json_option
def effect(
    do: str,
    number: int | None,
    priority: str,
    branch: str | None,
    repository: str | None,
    server: str | None,
    as_json: bool,
) -> None:
    """Show what a control would do now, without doing it: DO for NUMBER, or for the queue of a base branch."""
    session = open_session(server, as_json=as_json)
    if do in _OF_QUEUE:
        if branch is None:
            raise click.UsageError(f"{do} needs --branch.")
        name = repository or repository_of_clone(session, clone_or_stop())
        path, asked = f"{repository_path(name)}/branches/{quote(branch, safe='')}", {"do": do}
    else:
        path = find_pull_request(session, number, repository).path
        asked = {"do": do, "priority": priority}
    answer = session.call("GET", f"{path}/effect?{urlencode(asked)}")
    session.refuse(answer)
    if as_json:
        echo_json(answer.body)
    else:
        echo(answer.body["sentence"])
