"""`imq why`: show the state of a pull request, what it waits for, and whose move it is."""

import click

from bot.cli.author.pull_requests import find_pull_request
from bot.cli.author.session import AuthorCommand, json_option, open_session, repository_option, server_option
from bot.cli.author.state_text import details, state_line, state_word
from bot.cli.author.terminal import say, say_json, say_line


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
        say_json(answer.body)
        return
    say_line(f"{found.name} {state_line(answer.body)}", state_word(answer.body))
    for line in details(answer.body):
        say(line)
