"""Check the settings, the database, the disk and the clock. Pure."""

from collections.abc import Iterator
from datetime import timedelta

from bot.api.finding import Finding
from bot.doctor.facts import AppFacts, HostFacts

_LEAST_FREE = 200 * 1024 * 1024
_MOST_SKEW = timedelta(seconds=30)
"""GitHub refuses a JWT that was issued a minute in its future."""

_PAGE = "docs/operating.md"


def host_findings(host: HostFacts) -> Iterator[Finding]:
    """Yield the faults of the machine on which IMQ runs."""
    for name in host.unknown_settings:
        yield _finding(
            "setting_unknown",
            f"{name} is set, but IMQ has no such setting.",
            "What it was set for keeps its default.",
            "Correct the name, or remove the variable.",
            "settings-in-depth",
        )
    if host.database_fault is not None:
        yield _finding(
            "database_unusable",
            host.database_fault,
            "IMQ cannot store webhooks, and advances no queue.",
            "Follow that sentence, and check DATABASE_URL.",
            "databases",
        )
    elif not host.migrated:
        yield _finding(
            "database_not_migrated",
            "The database has the tables of another version, or none.",
            "Processes of this version do not start on it.",
            "Run `imq migrate`; `imq run` does so itself for an SQLite file.",
            "upgrades",
        )
    if host.disk_free is not None and host.disk_free < _LEAST_FREE:
        yield _finding(
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


def clock_findings(app: AppFacts) -> Iterator[Finding]:
    """Yield a finding if the clocks of this machine and GitHub differ."""
    ahead = app.clock_ahead
    if ahead is None or abs(ahead) <= _MOST_SKEW:
        return
    side = "ahead of" if ahead > timedelta(0) else "behind"
    yield _finding(
        "clock_wrong",
        f"This machine's clock is {abs(ahead).total_seconds():.0f} seconds {side} GitHub's.",
        "GitHub refuses the App's key once the clocks differ too much, and waits become longer or shorter.",
        "Synchronize the clock by NTP.",
        "when-the-clock-is-wrong",
    )


def _finding(code: str, finding: str, impact: str, remedy: str, anchor: str) -> Finding:
    return Finding(code, "IMQ", finding, impact, remedy, f"{_PAGE}#{anchor}")
