"""Writes the parts of the documents that the code knows better than any author: `make docs`.

Lives here: what turns texts, reasons, transitions and the App's manifest into Markdown. A document marks such a part
with `<!-- generated: NAME -->` and `<!-- end -->`; `tests/test_docs.py` fails when one is not what the code says.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from bot.demo.manifest import read_manifest
from bot.metrics import FAMILIES
from bot.metrics.families import Source
from docs import keys
from notifications import texts
from notifications.comment import MARKER, render_comment
from queue_engine.commands.catalogue import CATALOGUE
from queue_engine.core.outage import Fault
from queue_engine.facts import CheckReport, CheckState
from queue_engine.model import TRANSITIONS
from queue_engine.notice import Notice, NoticeKind
from queue_engine.reasons import REASONS, Outcome, Reason

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = (
    "README.md",
    "ARCHITECTURE.md",
    "docs/commands.md",
    "docs/configuration.md",
    "docs/operating.md",
    "docs/what-authors-read.md",
)
SCHEMA = "docs/imq.schema.json"

_PART = re.compile(r"(?<=<!-- generated: )(?P<name>[a-z-]+)( -->\n).*?(?=<!-- end -->)", re.DOTALL)

_JOINED = datetime(2026, 3, 14, 15, 0, tzinfo=UTC)
_HEAD = "8f14e45fceea167a5a36dedd4bea2543ffd1c0de"
_LANDED = "45c48cce2e2d7fbdea1afc51c7c6ad26d9e0b3a1"
_KIND_OF_OUTCOME = {
    Outcome.FAILED: NoticeKind.FAILED,
    Outcome.CANCELLED: NoticeKind.CANCELLED,
    Outcome.REFUSED: NoticeKind.REFUSED,
    Outcome.HELD: NoticeKind.HELD,
    Outcome.PAUSED: NoticeKind.PAUSED,
}


def refreshed(text: str) -> str:
    """The text with every generated part as the code says it now. Raises KeyError for a part that nobody makes."""
    return _PART.sub(lambda found: f"{found['name']}{found[2]}{PARTS[found['name']]()}", text)


def main() -> None:
    """Renew the generated parts of all documents."""
    for name in DOCUMENTS:
        path = ROOT / name
        path.write_text(refreshed(path.read_text(encoding="utf-8")), encoding="utf-8")
    (ROOT / SCHEMA).write_text(keys.schema(), encoding="utf-8")


def quoted(notice: Notice) -> str:
    """The comment as a quotation, without its hidden marker."""
    lines = render_comment(notice).removeprefix(f"{MARKER}\n").rstrip("\n").split("\n")
    return "".join(f"> {line}".rstrip() + "\n" for line in lines)


def _notice(kind: NoticeKind, minutes: float, **fields: Any) -> Notice:
    """A notice of a pull request by ada, queued by grace, so many minutes after it joined."""
    changes: dict[str, Any] = {
        "people": ("ada",),
        "enqueued_at": _JOINED,
        "started_at": _JOINED + timedelta(minutes=24),
        "queued_by": "grace",
    }
    at = _JOINED + timedelta(minutes=minutes)
    return Notice(kind=kind, number=42, base_branch="main", head_sha=_HEAD, at=at, **(changes | fields))


def _left(reason: Reason, minutes: float, **fields: Any) -> Notice:
    return _notice(_KIND_OF_OUTCOME[REASONS[reason].outcome], minutes, reason=reason, **fields)


def _check(name: str, conclusion: str, began: float, ended: float | None = None) -> CheckReport:
    return CheckReport(
        name=name,
        app_id=15368,
        state=CheckState.PENDING if ended is None else CheckState.FAILED,
        conclusion=conclusion,
        url=f"https://ci.example.com/{name}/1024",
        started_at=_JOINED + timedelta(minutes=began),
        completed_at=None if ended is None else _JOINED + timedelta(minutes=ended),
    )


def _queued() -> Notice:
    return _notice(NoticeKind.QUEUED, 0, position=2, depth=3)


def _checking() -> Notice:
    checks = (_check("test", "in_progress", 25), _check("lint", "queued", 25))
    return _notice(NoticeKind.CHECKING, 26, checks=checks)


def _landed() -> Notice:
    return _notice(NoticeKind.LANDED, 33, landed_sha=_LANDED)


def _failed() -> Notice:
    return _left(Reason.CHECKS_FAILED, 31, checks=(_check("test", "failure", 25, 31),))


STORIES: Mapping[str, Callable[[], Notice]] = {
    "Queued": _queued,
    "First in line": lambda: _notice(NoticeKind.UPDATING, 24),
    "Waiting for its checks": _checking,
    "Landed": _landed,
    "A check failed": _failed,
    "It conflicts with what landed before": lambda: _left(Reason.CONFLICT, 24),
    "Somebody pushed to it while it was queued": lambda: _left(Reason.HEAD_CHANGED, 12),
    "The label was taken off": lambda: _left(Reason.LABEL_REMOVED, 12),
    "A required check never reported": lambda: _left(
        Reason.CHECKS_TIMED_OUT, 144, checks=(CheckReport("docs", None, CheckState.PENDING, "", None, None, None),)
    ),
    "The branch's rules want more": lambda: _left(
        Reason.REFUSED_BY_RULES, 33, detail="At least 1 approving review is required by reviewers with write access."
    ),
    "Set by somebody who may not merge": lambda: _left(Reason.LABEL_WITHOUT_RIGHT, 0, queued_by="linus"),
    "The queue is full": lambda: _left(Reason.QUEUE_FULL, 0),
    "The queue is paused": lambda: _left(Reason.TREE_MISMATCH, 20),
}
"""The comments that authors meet most, in the order in which they meet them."""


def _comments() -> str:
    return "\n".join(f"## {title}\n\n{quoted(make())}" for title, make in STORIES.items())


def _life() -> str:
    """The three comments of a pull request that lands."""
    return "\n".join(f"{quoted(make())}" for make in (_queued, _checking, _landed))


def _failure() -> str:
    return quoted(_failed())


def _reasons() -> str:
    """Every reason code with what becomes of the pull request and what people read."""
    rows = ["| code | outcome | label | what people read | next step, and whose |", "| --- | --- | --- | --- | --- |"]
    for reason, facts in REASONS.items():
        words = texts.REASONS[reason]
        label = "comes off" if facts.label_off else "stays" if facts.outcome is not Outcome.CANCELLED else "is off"
        step = f"{texts.MOVES[facts.move]} {words.next_step}"
        cells = (f"`{reason}`", facts.outcome.value, label, _filled(words.sentence), _filled(step))
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def _filled(template: str) -> str:
    return template.format(base="`main`", label="`merge-queue`")


def _transitions() -> str:
    """The only changes of status that there are."""
    rows = ["| from | to |", "| --- | --- |"]
    for status, next_ones in TRANSITIONS.items():
        ordered = [f"`{other}`" for other in TRANSITIONS if other in next_ones]
        rows.append(f"| `{status}` | {', '.join(ordered) or 'nothing: it has left the queue'} |")
    return "\n".join(rows) + "\n"


def _registration() -> str:
    """The link on which GitHub's form for a new App is filled in from the manifest."""
    manifest = read_manifest()
    hook = manifest.content["hook_attributes"]
    assert isinstance(hook, dict)
    fields = [
        ("name", manifest.content["name"]),
        ("url", manifest.content["url"]),
        ("public", "false"),
        ("webhook_active", "true"),
        ("webhook_url", hook["url"]),
        *manifest.permissions.items(),
        *(("events[]", event) for event in manifest.events),
    ]
    query = urlencode([(name, str(value)) for name, value in fields], safe=":/[]")
    return f"```text\nhttps://github.com/settings/apps/new?{query}\n```\n"


def _permissions() -> str:
    """Permissions and events, for those who fill in the form by hand."""
    manifest = read_manifest()
    permissions = ", ".join(f"`{name}: {level}`" for name, level in manifest.permissions.items())
    events = ", ".join(f"`{event}`" for event in manifest.events)
    return f"- Repository permissions: {permissions}\n- Events: {events}\n"


def _metrics() -> str:
    """Every figure on the page for Prometheus."""
    rows = ["| metric | type | labels | meaning |", "| --- | --- | --- | --- |"]
    for family in FAMILIES:
        own = ("process",) if family.source is Source.PROCESS else ()
        labels = ", ".join(f"`{label}`" for label in (*family.labels, *own))
        rows.append(f"| `{family.name}` | {family.kind} | {labels} | {family.help} |")
    return "\n".join(rows) + "\n"


def _faults() -> str:
    """What may be wrong with the database's surroundings."""
    rows = ["| `fault` | `advice` |", "| --- | --- |"]
    rows += [f"| `{fault}` | {fault.sentence} |" for fault in Fault]
    return "\n".join(rows) + "\n"


def _commands() -> str:
    rows = ["| command | what it does | by whom |", "| --- | --- | --- |"]
    rows += (f"| `{each.usage}` | {each.help} | {each.right.value} |" for each in CATALOGUE.values())
    return "\n".join(rows) + "\n"


PARTS: Mapping[str, Callable[[], str]] = {
    "comments": _comments,
    "life": _life,
    "failure": _failure,
    "reasons": _reasons,
    "transitions": _transitions,
    "registration": _registration,
    "permissions": _permissions,
    "metrics": _metrics,
    "faults": _faults,
    "configuration": keys.keys,
    "placeholders": keys.placeholders,
    "commands": _commands,
}
"""The generated parts by name."""

if __name__ == "__main__":
    main()
