"""Write an audit as one page that asks for nothing: text, and the style of IMQ's pages."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from bot.cli.clone.landings import Landing, Verdict
from bot.cli.console import ExitCode, stop
from bot.logs.printable import on_one_line

_SECTIONS = {
    Verdict.DIFFERS: ("Landings that differ", "bad", "Their content is not what git makes of base and pull request."),
    Verdict.REVERTS: ("Landings that revert others", "bad", "Their content takes back what landed before."),
    Verdict.PUSHED: ("Direct pushes", "warn", "No pull request has these commits."),
    Verdict.UNKNOWN: ("Cannot tell", "busy", "Git alone does not show whether these are right."),
}
_FILES, _ROWS = 200, 2000


def page_of(title: str, body: str, more_style: str = "") -> str:
    """Return a whole page in the style of IMQ's pages. The title is escaped; the body is not."""
    style = files("bot").joinpath("web/static/imq.css").read_text(encoding="utf-8")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="color-scheme" content="light dark">
<title>{escaped(title)}</title>
<style>{style}{more_style}</style>
</head>
<body>
<main>
{body}</main>
</body>
</html>
"""


def write_page(path: Path, page: str) -> None:
    """Write a page, or stop the command with the reason."""
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        stop(ExitCode.USAGE, f"{path}: {error.strerror}")


def report_page(landings: Sequence[Landing], summary: Mapping[str, Any]) -> str:
    """Return the page. Every text of the clone is escaped: its authors may be hostile."""
    counts = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{number:,}</td></tr>'
        for name, number in summary["verdicts"].items()
    )
    sections = "".join(
        _section(verdict, [each for each in landings if each.verdict is verdict]) for verdict in _SECTIONS
    )
    wrong = summary["verdicts"][Verdict.DIFFERS] + summary["verdicts"][Verdict.REVERTS]
    outcome = f"{wrong:,} of {len(landings):,} landings are wrong." if wrong else "No landing is known to be wrong."
    body = f"""<h1>Audit of <code>{escaped(summary["range"])}</code></h1>
<p class="notice {"bad" if wrong else "good"}">{outcome}</p>
<p>Landings: {len(landings):,}. Known pull requests: {summary["pull_requests"]:,}. Git: {escaped(summary["git"])}.</p>
<table><thead><tr><th scope="col">Verdict</th><th scope="col">Landings</th></tr></thead><tbody>{counts}</tbody></table>
{sections}"""
    return page_of(f"Audit of {summary['range']}", body)


def _section(verdict: Verdict, landings: Sequence[Landing]) -> str:
    if not landings:
        return ""
    title, tone, meaning = _SECTIONS[verdict]
    rows = "".join(_row(each, tone) for each in landings[:_ROWS])
    more = f"<p>And {len(landings) - _ROWS:,} more; `imq audit --json` lists them.</p>" if len(landings) > _ROWS else ""
    heads = "".join(f'<th scope="col">{each}</th>' for each in ("Landing", "Kind", "Pull request", "What was found"))
    return f"""<h2>{title} <span class="badge {tone}">{len(landings):,}</span></h2>
<p>{meaning}</p>
<table><thead><tr>{heads}</tr></thead><tbody>
{rows}</tbody></table>
{more}"""


def _row(landing: Landing, tone: str) -> str:
    number = f"#{landing.pull_request}" if landing.pull_request else ""
    return (
        f"<tr><td><code>{landing.commit.sha[:12]}</code><br>{escaped(landing.commit.subject)}</td>"
        f'<td><span class="badge {tone}">{landing.kind.value}</span></td><td>{number}</td>'
        f"<td>{escaped(landing.reason)}{''.join(_files(landing.files))}</td></tr>\n"
    )


def _files(names: Sequence[str]) -> Iterator[str]:
    if names:
        opened = " open" if len(names) <= 10 else ""
        yield f"<details{opened}><summary>{len(names):,} file{'' if len(names) == 1 else 's'}</summary><ul>"
        yield from (f"<li><code>{escaped(each)}</code></li>" for each in names[:_FILES])
        yield f"<li>and {len(names) - _FILES:,} more</li>" if len(names) > _FILES else ""
        yield "</ul></details>"


def escaped(text: str) -> str:
    """Return text of the clone, of which nothing is markup."""
    return escape(on_one_line(text))
