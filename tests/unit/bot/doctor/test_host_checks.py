"""Faults of the host that need no GitHub."""

from pathlib import Path

from bot.doctor.app_checks import host_findings
from bot.doctor.facts import read_host
from bot.settings.environment import load_settings


async def test_login_that_is_not_possible_is_reported_where_somebody_wants_it(pem: str, tmp_path: Path) -> None:
    """The finding names each setting that is missing."""
    given = {
        "IMQ_GITHUB_APP_ID": "1",
        "IMQ_GITHUB_PRIVATE_KEY": pem,
        "IMQ_GITHUB_WEBHOOK_SECRET": "0123456789abcdef01234",  # pragma: allowlist secret
        "DATABASE_URL": f"sqlite:///{tmp_path / 'imq.db'}",
    }
    assert (await read_host(load_settings(given), given)).missing_for_login == ()
    given["IMQ_PUBLIC_URL"] = "https://imq.example.com"
    assert (await read_host(load_settings(given), given)).missing_for_login == ()
    given["IMQ_OPERATORS"] = "octocat"
    host = await read_host(load_settings(given), given)
    (finding,) = [each for each in host_findings(host) if each.code == "login_disabled"]
    assert "IMQ_SECRET_KEY, IMQ_GITHUB_CLIENT_SECRET" in finding.finding
