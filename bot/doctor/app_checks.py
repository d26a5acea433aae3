"""Check the host and the App: settings, database, clock; credentials, permissions, events, webhook, limits. Pure."""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from bot.api.finding import Finding
from bot.doctor.doctor_facts import AppFacts, HostFacts
from bot.doctor.webhook_probe import address_fault
from bot.gateway.http.scopes import OPTIONAL
from bot.gateway.schemas import InstallationAnswer
from bot.registration.manifest import REASONS, Manifest
from queue_engine.domain.errors import GitHubError
from queue_engine.domain.facts import Delivery

_LEVELS = ("", "read", "write", "admin")
_LEAST_BUDGET = 0.1
_FIRST_DAY = timedelta(days=1)
"""After its creation GitHub sends an App the first webhooks, often before its IMQ is started."""
_REFUSED = range(400, 500)
_NEWEST = 20
"""Deliveries that are judged; older ones may have been redelivered since."""

_EVENTS: Mapping[str, str] = {
    "pull_request": "IMQ learns of labels, pushes and closed pull requests only from its sweep, minutes later.",
    "issue_comment": "IMQ receives no commands in comments.",
    "pull_request_review": "A request for changes does not dequeue a pull request until IMQ reads it again.",
    "pull_request_review_thread": "IMQ learns up to an hour late that the last conversation was resolved.",
    "push": "IMQ learns late that a base branch moved, or that .github/imq.yml changed.",
    "check_run": "IMQ learns late that a check run ended, so every merge waits longer.",
    "check_suite": "IMQ learns late that a check suite ended.",
    "status": "IMQ learns late that a commit status was reported, so merges wait longer.",
    "workflow_run": "IMQ does not notice that a workflow run waits for approval.",
    "repository": "IMQ learns late that a repository was renamed, transferred or archived.",
    "label": "IMQ takes a renamed trigger label for a removed one.",
    "branch_protection_configuration": "IMQ uses changed rules after two hours at the latest.",
    "branch_protection_rule": "IMQ uses changed rules after two hours at the latest.",
    "repository_ruleset": "IMQ uses changed rules after two hours at the latest.",
}
_LATE = "IMQ learns of such changes only from its sweep."

_SETTINGS = "On the App's settings page, under Permissions & events"


def app_findings(app: AppFacts, manifest: Manifest) -> Iterator[Finding]:
    """Yield the faults of the App; without its credentials nothing else is known."""
    if app.outage is not None:
        yield _finding(
            "github_unreachable",
            f"GitHub did not answer: {app.outage}",
            "IMQ can neither read nor merge.",
            "Check IMQ_GITHUB_API_URL, the network, and a proxy or firewall between.",
            "docs/troubleshooting.md",
        )
    if app.refusal is not None:
        yield _finding(
            "credentials_refused",
            f"GitHub does not accept the App's id or key: {app.refusal}",
            "IMQ can neither read nor merge, and `/readyz` is not ready.",
            "Compare IMQ_GITHUB_APP_ID and IMQ_GITHUB_PRIVATE_KEY with the App's settings page.",
            "docs/operating.md#health",
        )
    if app.app is None:
        return
    yield from _permissions(app.app.permissions, manifest)
    yield from _events(app.app.events, manifest)
    yield from _installations(app)
    yield from _webhook(app)
    yield from recent_deliveries(app.deliveries, app.app.created_at, reached=app.reached)
    for account, (left, limit) in app.budgets.items():
        if left < limit * _LEAST_BUDGET:
            yield _finding(
                "budget_low",
                f"{left} of {limit} requests of this hour are left on {account}.",
                "At nothing IMQ waits until GitHub renews them, within an hour.",
                "See in `imq_github_requests_total` what uses them, and whether another program uses the same App.",
                "docs/operating.md#metrics-and-alerts",
            )


def _lacks(granted: Mapping[str, str], name: str, level: str) -> bool:
    return _LEVELS.index(granted.get(name, "")) < _LEVELS.index(level)


def _effect(granted: Mapping[str, str], name: str) -> str:
    optional = OPTIONAL.get(name)
    if optional is None or _lacks(granted, name, optional.least):
        return f"IMQ needs it: {REASONS[name]}"
    return optional.without


def _permissions(granted: Mapping[str, str], manifest: Manifest) -> Iterator[Finding]:
    for name, level in manifest.permissions.items():
        if _lacks(granted, name, level):
            yield _finding(
                "permission_missing",
                f"The App lacks the permission `{name}: {level}`.",
                _effect(granted, name),
                f"{_SETTINGS}, choose it; then accept it for each installation.",
                "docs/operating.md#permissions-and-tokens",
            )


def _events(subscribed: tuple[str, ...], manifest: Manifest) -> Iterator[Finding]:
    for event in manifest.events:
        if event not in subscribed:
            yield _finding(
                "event_missing",
                f"The App does not subscribe to the event `{event}`.",
                _EVENTS.get(event, _LATE),
                f"{_SETTINGS}, subscribe to it.",
                "docs/self-hosting.md",
            )


def _installations(app: AppFacts) -> Iterator[Finding]:
    assert app.app is not None
    if not app.installations:
        yield _finding(
            "not_installed",
            "The App is installed nowhere.",
            "IMQ sees no repository.",
            f"Install it: {app.app.html_url}/installations/new",
            "docs/self-hosting.md",
        )
    for each in app.installations:
        if each.suspended_at is not None:
            yield _finding(
                "installation_suspended",
                f"The installation on {each.owner} is suspended.",
                "GitHub refuses every request for its repositories.",
                f"Unsuspend it: {each.html_url}",
                "docs/troubleshooting.md",
            )
            continue
        for name, level in app.app.permissions.items():
            if level in _LEVELS and _lacks(each.permissions, name, level) and name in REASONS:
                yield _finding(
                    "permission_not_accepted",
                    f"{each.owner} has not accepted the App's permission `{name}: {level}`.",
                    _effect(each.permissions, name),
                    f"An owner of {each.owner} accepts it: {each.html_url}",
                    "docs/operating.md#permissions-and-tokens",
                )


def _webhook(app: AppFacts) -> Iterator[Finding]:
    webhook, impact = app.webhook, "IMQ learns of labels, pushes and checks only from its sweep, minutes later."
    if webhook is None:
        return
    if (remedy := address_fault(webhook.url, app.public_url, app.relay_url)) is not None:
        finding = f"GitHub sends webhooks to {webhook.url or 'no address'}."
        yield _finding("webhook_address_wrong", finding, impact, remedy, "docs/operating.md#webhook-answers")
    elif webhook.secret is None:
        yield _finding(
            "webhook_secret_missing",
            "The App has no webhook secret, so GitHub does not sign webhooks.",
            f"IMQ refuses unsigned webhooks. {impact}",
            "Enter IMQ_GITHUB_WEBHOOK_SECRET on the App's settings page.",
            "docs/operating.md#webhook-answers",
        )
    elif webhook.insecure_ssl in ("1", 1) and webhook.url.startswith("https://"):
        yield _finding(
            "webhook_certificate_unchecked",
            "GitHub does not check the certificate of the webhook address.",
            "Another server could receive the webhooks.",
            "Enable SSL verification on the App's settings page.",
            "docs/operating.md#webhook-answers",
        )


def recent_deliveries(
    deliveries: tuple[Delivery, ...], created: datetime | None = None, *, reached: bool = False
) -> Iterator[Finding]:
    """Judge the newest attempt of each delivery: one that was redelivered is in order. `deliveries`: newest first.

    If a later delivery of the same event arrived, the cause is gone: IMQ was not started, or the secret was wrong. On
    the App's first day any later delivery shows that, and so does a call that reached IMQ, unless IMQ itself refused.
    """
    first_day_ends = None if created is None else created + _FIRST_DAY
    newest: dict[str, Delivery] = {}
    for each in deliveries[:_NEWEST]:
        newest.setdefault(each.guid, each)
    arrived: set[str] = set()
    failed: list[Delivery] = []
    for each in newest.values():
        if each.succeeded:
            arrived.add(each.event)
        elif first_day_ends is not None and each.at < first_day_ends:
            if not arrived and (each.status_code in _REFUSED or not reached):
                failed.append(each)
        elif each.event not in arrived:
            failed.append(each)
    if not failed:
        return
    yield _finding(
        "deliveries_fail",
        f"{len(failed)} of the last {len(newest)} webhooks did not arrive; the newest is `{failed[0].event}`.",
        "IMQ learns of these changes only from its sweep, minutes later.",
        "See under Advanced on the App's settings page what your server or proxy answered. 401 means that the webhook "
        "secrets differ.",
        "docs/operating.md#webhook-answers",
    )


def installation_unlisted(owner: str, error: GitHubError) -> Finding:
    """Return the finding for an installation whose repositories GitHub did not list."""
    return Finding(
        "installation_unreadable",
        "App",
        f"GitHub did not list the repositories of {owner}: {error.message}",
        "IMQ does not see what is labelled there.",
        "Run the command again later; if it persists, look at the installation on GitHub.",
        "docs/troubleshooting.md",
    )


def no_repositories(installations: Sequence[InstallationAnswer]) -> Finding:
    """Return the finding for an App without a repository."""
    pages = " or ".join(each.html_url for each in installations)
    return Finding(
        "no_repositories",
        "App",
        "The App is installed, but on no repository.",
        "IMQ has nothing to do.",
        f"Choose repositories: {pages}",
        "docs/self-hosting.md",
    )


def _finding(code: str, finding: str, impact: str, remedy: str, link: str) -> Finding:
    return Finding(code, "App", finding, impact, remedy, link)


_LEAST_FREE = 200 * 1024 * 1024
_MOST_SKEW = timedelta(seconds=30)
"""GitHub refuses a JWT that was issued a minute in its future."""

_PAGE = "docs/operating.md"


def host_findings(host: HostFacts) -> Iterator[Finding]:
    """Yield the faults of the machine on which IMQ runs."""
    for name in host.unknown_settings:
        yield _finding_host_checks(
            "setting_unknown",
            f"{name} is set, but IMQ has no such setting.",
            "What it was set for keeps its default.",
            "Correct the name, or remove the variable.",
            "settings-in-depth",
        )
    if host.database_fault is not None:
        yield _finding_host_checks(
            "database_unusable",
            host.database_fault,
            "IMQ cannot store webhooks, and advances no queue.",
            "Follow that sentence, and check DATABASE_URL.",
            "databases",
        )
    elif not host.migrated:
        yield _finding_host_checks(
            "database_not_migrated",
            "The database has the tables of another version, or none.",
            "Processes of this version do not start on it.",
            "Run `imq migrate`; `imq run` does so itself for an SQLite file.",
            "upgrades",
        )
    if host.disk_free is not None and host.disk_free < _LEAST_FREE:
        yield _finding_host_checks(
            "disk_nearly_full",
            f"The disk of the database has {host.disk_free // 1024**2} MiB left.",
            "Once it is full, IMQ answers webhooks with 503 and stores nothing.",
            "Free some space, or enlarge the disk.",
            "when-the-database-is-away",
        )
    if host.missing_for_login:
        yield Finding(
            "login_disabled",
            "IMQ",
            f"These settings are missing: {', '.join(host.missing_for_login)}.",
            "People cannot log in to IMQ's pages.",
            "Set them. IMQ_PUBLIC_URL followed by /auth/callback has to be a callback URL of the App.",
            "docs/login.md#enable-the-login",
        )


_FIRST_SERVER = (3, 16)
"""Its GraphQL schema has all that IMQ asks for (github/docs, `src/graphql/data/ghes-3.16`)."""


def server_findings(app: AppFacts) -> Iterator[Finding]:
    """Yield a finding if GitHub is an Enterprise Server that is too old."""
    if app.server is not None and _version(app.server) < _FIRST_SERVER:
        yield _finding_host_checks(
            "server_too_old",
            f"GitHub is Enterprise Server {app.server}, and IMQ needs 3.16 or later.",
            "Its GraphQL API lacks what IMQ asks for: queues wait.",
            "Upgrade it to a version that GitHub supports.",
            "github-enterprise-server",
        )


def server_text(version: str | None) -> str | None:
    """Describe an Enterprise Server by what it lacks of github.com; None for github.com."""
    if version is None:
        return None
    return (
        f"Enterprise Server {version}. It has no stacks and no `merge-async`, which lands them: pull requests that "
        "build on each other land one by one. It shows no concurrency groups: IMQ names no run that replaced another."
    )


def _version(text: str) -> tuple[int, ...]:
    """Return the numbers of a version; a text without numbers counts as the newest."""
    return tuple(int(each) for each in re.findall(r"\d+", text)[:2]) or (sys.maxsize,)


def clock_findings(app: AppFacts) -> Iterator[Finding]:
    """Yield a finding if the clocks of this machine and GitHub differ."""
    ahead = app.clock_ahead
    if ahead is None or abs(ahead) <= _MOST_SKEW:
        return
    side = "ahead of" if ahead > timedelta(0) else "behind"
    yield _finding_host_checks(
        "clock_wrong",
        f"This machine's clock is {abs(ahead).total_seconds():.0f} seconds {side} GitHub's.",
        "GitHub refuses the App's key once the clocks differ too much, and waits become longer or shorter.",
        "Synchronize the clock by NTP.",
        "when-the-clock-is-wrong",
    )


def _finding_host_checks(code: str, finding: str, impact: str, remedy: str, anchor: str) -> Finding:
    return Finding(code, "IMQ", finding, impact, remedy, f"{_PAGE}#{anchor}")
