"""`imq` on a migrated database, once per kind of database."""

import pytest

from bot.cli import host
from tests.unit.bot.cli.imq import Imq


@pytest.fixture
def imq(database_url: str, pem: str, monkeypatch: pytest.MonkeyPatch) -> Imq:
    monkeypatch.setattr(host, "configure", lambda *_: None)
    return Imq(
        {
            "IMQ_GITHUB_APP_ID": "77",
            "IMQ_GITHUB_PRIVATE_KEY": pem,
            "IMQ_GITHUB_WEBHOOK_SECRET": "s3cret-0123456789abcdef",
            "DATABASE_URL": database_url,
        }
    )
