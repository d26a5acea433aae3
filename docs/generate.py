"""Writes the generated parts of the documents: `make docs`.

This module converts texts, reasons, transitions and the App's manifest to Markdown. A document marks such a part
with `<!-- generated: NAME -->` and `<!-- end -->`; `tests/test_docs.py` fails when a generated part is out of date.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from urllib.parse import urlencode

from bot.gateway.http.scopes import OPTIONAL
from bot.mcp.tools import TOOLS
from bot.metrics import FAMILIES
from bot.metrics.families import Source
from bot.registration.manifest import PATH as MANIFEST
from bot.registration.manifest import read_manifest
from docs import calls, dashboard, keys, screens, site, sizing
from docs.tested_lines import workflow_lines
from github_emulator.__main__ import endpoints
from notifications.texts import headlines, reason_texts
from queue_engine.admission.throttle import KEPT as THROTTLE_KEPT
from queue_engine.commands.commands import CATALOGUE
from queue_engine.config.kinds import shown
from queue_engine.core.database.outage import OutageKind
from queue_engine.core.jobs.idempotency import KEPT as KEYS_KEPT
from queue_engine.domain.facts import RequiredCheck
from queue_engine.domain.known_facts import KEPT as FACTS_KEPT
from queue_engine.domain.model import TRANSITIONS
from queue_engine.domain.reasons import REASONS, RETRY_REASONS, Outcome, Reason, WaitReason
from queue_engine.executor.proof_marks import KEPT as MARKS_KEPT
from queue_engine.handlers.table_limits import OUTBOX_KEPT, PENDING_MERGES_KEPT, SHADOW_KEPT
from queue_engine.queries.pull_request_status import whose_move
from queue_engine.store.outbox.outbox import KEPT as ANSWERS_KEPT
from queue_engine.store.request_records import KEPT as REQUESTS_KEPT

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = (
    "ARCHITECTURE.md",
    "docs/api.md",
    "docs/commands.md",
    "docs/configuration.md",
    "docs/operating.md",
    "docs/proof.md",
    "docs/troubleshooting.md",
    "docs/registration.md",
    "docs/security.md",
    "docs/first-ten-minutes.md",
    "docs/sizing.md",
    "docs/what-authors-read.md",
    "emulator/README.md",
    "skills/imq/SKILL.md",
)
SCHEMA = "docs/imq.schema.json"
OPENAPI = "docs/openapi.json"
SKILL, SKILL_IN_PACKAGE = "skills/imq/SKILL.md", "bot/cli/author/skill.md"
DASHBOARD = "deploy/grafana/imq.json"

_PART = re.compile(r"(?<=<!-- generated: )(?P<name>[a-z-]+)( -->\n).*?(?=<!-- end -->)", re.DOTALL)


def refreshed(text: str) -> str:
    """Return the text with every generated part renewed. Raises KeyError for an unknown part."""
    return _PART.sub(lambda found: f"{found['name']}{found[2]}{PARTS[found['name']]()}", text)


def main() -> None:
    """Renew the generated parts of all documents."""
    for name in DOCUMENTS:
        path = ROOT / name
        path.write_text(refreshed(path.read_text(encoding="utf-8")), encoding="utf-8")
    (ROOT / SKILL_IN_PACKAGE).write_text((ROOT / SKILL).read_text(encoding="utf-8"), encoding="utf-8")
    (ROOT / SCHEMA).write_text(keys.schema(), encoding="utf-8")
    (ROOT / OPENAPI).write_text(calls.openapi(), encoding="utf-8")
    (ROOT / "llms.txt").write_text(site.llms(), encoding="utf-8")
    (ROOT / DASHBOARD).write_text(dashboard.dashboard(), encoding="utf-8")


def _reasons() -> str:
    """Every reason code with what becomes of the pull request and what people read."""
    rows = ["| code | outcome | label | what people read | next step, and whose |", "| --- | --- | --- | --- | --- |"]
    for reason, facts in REASONS.items():
        words = reason_texts.REASONS[reason]
        stays = facts.outcome is not Outcome.CANCELLED or reason is Reason.SHADOW_MODE
        label = "comes off" if facts.label_off else "stays" if stays else "is off"
        step = f"{headlines.NEXT_STEP_FOR[facts.next_actor]} {words.next_step}"
        cells = (f"`{reason}`", facts.outcome.value, label, _filled(words.sentence), _filled(step))
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


_BY_A_PERSON = re.compile(r"(To queue it again, )?(?P<verb>[Cc])omment `/queue` or add the label `merge-queue`")


def _queue_again(found: re.Match[str]) -> str:
    """How an agent does what a person does by a comment or a label."""
    return "Queue it again" if found[1] or found["verb"] == "C" else "queue it again"


def _agent_reasons() -> str:
    """Every reason for which a pull request is not queued, as an agent needs it."""
    rows = ["| `reason` | `outcome` | who acts | `retry_safe` | what to do |", "| --- | --- | --- | --- | --- |"]
    for reason, facts in REASONS.items():
        if facts.outcome in (Outcome.FAILED, Outcome.CANCELLED, Outcome.REFUSED):
            again = "yes" if reason in RETRY_REASONS else "no"
            step = _BY_A_PERSON.sub(_queue_again, _filled(reason_texts.REASONS[reason].next_step))
            rows.append(f"| `{reason}` | {facts.outcome.value} | {whose_move(reason).value} | {again} | {step} |")
    full, never = Reason.QUEUE_FULL, WaitReason.NEVER_QUEUED
    rows.append(f"| `{full}` | refused | {whose_move(full).value} | yes | Wait for room. Then queue it again. |")
    rows.append(f"| `{never}` | none | {whose_move(never).value} | yes | Queue it. IMQ may have lost its database. |")
    return "\n".join(rows) + "\n"


def _tools() -> str:
    """The tools for agents."""
    rows = ["| tool | arguments | what it does |", "| --- | --- | --- |"]
    for tool in TOOLS.values():
        names = ", ".join(f"`{name}`" if name in tool.required else f"[`{name}`]" for name in tool.properties)
        rows.append(f"| `{tool.name}` | {names} | {tool.description} |")
    return "\n".join(rows) + "\n"


def _filled(template: str) -> str:
    return template.format(base="`main`", label="`merge-queue`", fix="`merge-queue-fix`")


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


_REASON = re.compile(r"((?:^ +#.*\n)+)^ +(?:- )?([a-z_]+)(?:: \w+)?$", re.MULTILINE)


def _permission_reasons() -> str:
    """What each permission is for, as app.yml says it, and what stops working without it."""
    manifest, reasons = read_manifest(), _reasons_of("default_permissions")
    rows = ["| permission | for what | may be left out |", "| --- | --- | --- |"]
    for name, level in manifest.permissions.items():
        optional = OPTIONAL.get(name)
        left_out = "no" if optional is None else f"`{optional.least}` suffices" if optional.least else "yes"
        rows.append(f"| `{name}: {level}` | {reasons[name].removeprefix('Optional. ')} | {left_out} |")
    return "\n".join(rows) + "\n"


def _event_reasons() -> str:
    """What each event is for, as app.yml says it: several that follow one comment share it."""
    rows, reasons, reason = ["| event | for what |", "| --- | --- |"], _reasons_of("default_events"), ""
    for name in read_manifest().events:
        reason = reasons.get(name, reason)
        rows.append(f"| `{name}` | {reason} |")
    return "\n".join(rows) + "\n"


def _reasons_of(part: str) -> dict[str, str]:
    text = MANIFEST.read_text(encoding="utf-8").partition(f"\n{part}:\n")[2].partition("\n\n")[0]
    return {name: " ".join(re.findall(r"# ?(.*)", comment)) for comment, name in _REASON.findall(text)}


_KEPT: tuple[tuple[Iterable[str], str, str], ...] = (
    (("entries", "runs"), "queued pull requests: titles, branches, logins, labels, checks", "while they are queued"),
    (("queues", "trains"), "branches with a queue: their blockers, what trains remember", "for good"),
    (
        ("consents",),
        "who consented to which head, by what, when",
        f"{shown(SHADOW_KEPT)}, and while the pull request is in a queue",
    ),
    (
        ("timeline", "departures", "departure_days", "flaky_days", "request_days"),
        "the history and the statistics: numbers, logins, reasons",
        "`IMQ_TIMELINE_DAYS`",
    ),
    (
        ("audit_log",),
        "who created tokens, logged in, changed configurations, and what else is no event of a queue",
        "`IMQ_TIMELINE_DAYS`",
    ),
    (("landings",), "the record of each landing, and its signatures", "`IMQ_LANDINGS_DAYS`"),
    (("proof_marks",), "refs of tested trees, where the configuration asks for them", shown(MARKS_KEPT)),
    (("landing_notes",), "up to which landing a repository has git notes", "for good"),
    (("culprits",), "searches for what broke a base branch", "90d, until the next one"),
    (("landing_keys",), "the keys of passports; the private one is encrypted", "for good"),
    (("shadow_pulls",), "what IMQ would have done in shadow mode", f"{shown(SHADOW_KEPT)} after the last change"),
    (("outbox",), "comments, check runs and labels to write", f"{shown(OUTBOX_KEPT)} after they were written"),
    (("answers",), "comments that were answered, by their numbers", shown(ANSWERS_KEPT)),
    (("rejections",), "the head for which a pull request was rejected, and why", "until it lands, or is judged again"),
    (("jobs",), "webhooks and calls to work on, as JSON", "until they are done"),
    (("failed_jobs",), "dead letters: those that failed for good", "until a person retries or discards them"),
    (("idempotency_keys",), "ids of webhooks and calls that were carried out", shown(KEYS_KEPT)),
    (("requests",), "what people and programs asked of IMQ, with their logins", shown(REQUESTS_KEPT)),
    (("known_facts",), "what webhooks stated lately, to find reads that lag", shown(FACTS_KEPT)),
    (("configuration_files",), "texts of configuration files", "2h"),
    (("installation_tokens",), "GitHub's tokens for IMQ, encrypted; each is valid for an hour", "2h"),
    (("sessions",), "who is logged in: id, login, hash of a secret", "30d, or 7d without use"),
    (("login_owners",), "the account behind each login of `IMQ_OPERATORS`", "for good"),
    (("api_tokens",), "tokens of the API: name, rights, hash", "until they are revoked"),
    (("throttles",), "logins that asked without the right", shown(THROTTLE_KEPT)),
    (("repositories",), "names and ids of repositories", "for good"),
    (("app_registration",), "the App's credentials, encrypted, unless they are settings", "for good"),
    (("pending_merges",), "merges that GitHub carries out in the background", shown(PENDING_MERGES_KEPT)),
    (
        ("schema_compatibility", "processes", "sweeps", "pace_reservations", "pace_pauses"),
        "revision of the tables; figures of processes, limits of calls",
        "while they count",
    ),
)
"""What the database has, by its tables, and how long it stays."""


def _retention() -> str:
    """What IMQ keeps, and how long."""
    rows = ["| tables | content | kept |", "| --- | --- | --- |"]
    rows += (f"| {', '.join(f'`{each}`' for each in names)} | {what} | {kept} |" for names, what, kept in _KEPT)
    return "\n".join(rows) + "\n"


def _optional_permissions() -> str:
    """What stops working without each permission that may be left out."""
    rows = ["| permission | without it |", "| --- | --- |"]
    rows += (f"| `{name}: {optional.level}` | {optional.without} |" for name, optional in OPTIONAL.items())
    return "\n".join(rows) + "\n"


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
    rows += [f"| `{fault}` | {fault.sentence} |" for fault in OutageKind]
    return "\n".join(rows) + "\n"


def _commands() -> str:
    rows = ["| command | what it does | by whom |", "| --- | --- | --- |"]
    rows += (f"| `{each.usage}` | {each.help} | {each.right.value} |" for each in CATALOGUE.values())
    return "\n".join(rows) + "\n"


_TESTED = [RequiredCheck("test", None)]


def _tested_lines() -> str:
    """Write the lines of a workflow that skip tested trees on `main`."""
    return f"\n```yaml\n{workflow_lines('main', _TESTED)}```\n\n"


def _tested_branch_line() -> str:
    """Write the line that differs where a branch marks the tree."""
    lines = workflow_lines("main", _TESTED, by_branch=True).splitlines()
    ref = next(line.strip() for line in lines if "ref=" in line)
    return f"\n```sh\n{ref}\n```\n\n"


PARTS: Mapping[str, Callable[[], str]] = {
    "comments": screens.comments,
    "emulator-endpoints": lambda: "".join(f"{line}\n" for line in endpoints()),
    "trial": screens.trial,
    "reasons": _reasons,
    "agent-reasons": _agent_reasons,
    "tools": _tools,
    "tested-branch-line": _tested_branch_line,
    "tested-lines": _tested_lines,
    "transitions": _transitions,
    "registration": _registration,
    "permissions": _permissions,
    "permission-reasons": _permission_reasons,
    "event-reasons": _event_reasons,
    "retention": _retention,
    "metrics": _metrics,
    "faults": _faults,
    "calls": calls.calls,
    "configuration": keys.keys,
    "placeholders": keys.placeholders,
    "shared-keys": keys.shared_keys,
    "optional-permissions": _optional_permissions,
    "commands": _commands,
    "landings": sizing.landings,
}
"""The generated parts by name."""

if __name__ == "__main__":
    main()
