"""The operator's settings: every form that is accepted, every problem that is named."""

import base64
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from bot.settings.environment import Settings, SettingsProblem, load_host_settings, load_settings
from queue_engine.domain.policy import SharedConfig

SECRET = "s3cret-0123456789abcdef"
WHERE_THE_DISK_IS_LOST = {"DYNO": "web.1"}


@pytest.fixture
def environ(pem: str) -> dict[str, str]:
    return {
        "IMQ_GITHUB_APP_ID": "77",
        "IMQ_GITHUB_PRIVATE_KEY": pem,
        "IMQ_GITHUB_WEBHOOK_SECRET": SECRET,
    }


def _problems(environ: dict[str, str]) -> tuple[str, ...]:
    with pytest.raises(SettingsProblem) as caught:
        load_settings(environ)
    assert all(problem in str(caught.value) for problem in caught.value.problems)
    return caught.value.problems


def test_settings_with_only_what_is_required_have_the_contracts_defaults(environ: dict[str, str]) -> None:
    """The defaults are those of the operator's contract."""
    settings = load_settings(environ)
    assert settings.github_app_id == "77"
    assert settings.github_api_url == "https://api.github.com"
    assert settings.database_url.get_secret_value() == "sqlite:///imq.db"
    assert (settings.port, settings.max_queue_depth, settings.trigger_label) == (8080, 20, "merge-queue")
    assert (settings.interval, settings.sweep) == (timedelta(seconds=30), timedelta(minutes=10))
    assert settings.check_timeout == timedelta(hours=2)
    assert settings.timeline_kept == timedelta(days=365)
    assert (settings.log_level, settings.log_format) == ("info", None)
    assert settings.organization_config is SharedConfig.TIGHTEN
    assert settings.policy().own_app == 77, "a check of IMQ's own App is waited for by nobody"


def test_settings_take_every_value_from_the_environment(environ: dict[str, str]) -> None:
    """Numbers may have spaces around them, words any case."""
    settings = load_settings(
        {
            **environ,
            "IMQ_GITHUB_API_URL": "https://ghe.example/api/v3/",
            "DATABASE_URL": "postgres://u:p@db/imq?sslmode=require",
            "PORT": " 5000 ",
            "IMQ_INTERVAL_SECONDS": "0.5",
            "IMQ_SWEEP_SECONDS": "60",
            "IMQ_CONCURRENCY": "2",
            "IMQ_CHECK_TIMEOUT_SECONDS": "120",
            "IMQ_MAX_QUEUE_DEPTH": "0",
            "IMQ_TIMELINE_DAYS": "0",
            "IMQ_TRIGGER_LABEL": "to merge",
            "IMQ_LOG_LEVEL": "DEBUG",
            "IMQ_LOG_FORMAT": "Console",
        }
    )
    assert settings.github_api_url == "https://ghe.example/api/v3"
    assert settings.database_url.get_secret_value() == "postgres://u:p@db/imq?sslmode=require"
    assert (settings.port, settings.max_queue_depth, settings.trigger_label) == (5000, 0, "to merge")
    assert (settings.interval, settings.sweep) == (timedelta(seconds=0.5), timedelta(seconds=60))
    assert settings.check_timeout == timedelta(minutes=2)
    assert settings.concurrency == 2
    assert settings.timeline_kept is None
    assert (settings.log_level, settings.log_format) == ("debug", "console")


def test_settings_never_come_from_the_process_when_an_environment_is_given(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`load_settings` depends on its argument alone."""
    monkeypatch.setenv("PORT", "1")
    assert load_settings(environ).port == 8080


@pytest.mark.parametrize("form", ["real", "escaped", "crlf", "quoted", "base64", "wrapped base64", "path"])
def test_private_key_is_accepted_in_every_form(environ: dict[str, str], pem: str, tmp_path: Path, form: str) -> None:
    """Hosting platforms mangle newlines in their own ways; all forms give the same key."""
    file = tmp_path / "key.pem"
    file.write_text(pem)
    encoded = base64.b64encode(pem.encode()).decode()
    given = {
        "real": pem,
        "escaped": pem.replace("\n", "\\n"),
        "crlf": pem.replace("\n", "\r\n"),
        "quoted": '"' + pem.replace("\n", "\\n") + '"',
        "base64": encoded,
        "wrapped base64": encoded[:70] + "\n" + encoded[70:],
        "path": str(file),
    }[form]
    settings = load_settings({**environ, "IMQ_GITHUB_PRIVATE_KEY": given})
    assert settings.github_private_key.get_secret_value() == pem


def _pem_of(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, password: bytes | None = None) -> str:
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password is not None:
        encryption = serialization.BestAvailableEncryption(password)
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption).decode()


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("missing file", "neither a PEM, nor its base64, nor the path"),
        ("long nonsense", "neither a PEM, nor its base64, nor the path"),
        ("damaged", "no valid PEM"),
        ("encrypted", "encrypted"),
        ("elliptic", "not an RSA key"),
    ],
)
def test_private_key_unusable_is_explained_without_repeating_it(
    environ: dict[str, str], pem: str, rsa_key: rsa.RSAPrivateKey, kind: str, words: str
) -> None:
    """A damaged key is still a secret."""
    given = {
        "missing file": "no/such/file.pem",
        "long nonsense": "x" * 5000,
        "damaged": pem[:200] + pem[260:],
        "encrypted": _pem_of(rsa_key, b"password"),
        "elliptic": _pem_of(ec.generate_private_key(ec.SECP256R1())),
    }[kind]
    (problem,) = _problems({**environ, "IMQ_GITHUB_PRIVATE_KEY": given})
    assert problem.startswith("IMQ_GITHUB_PRIVATE_KEY ")
    assert words in problem
    assert given[100:140] not in problem or not given[100:140]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("IMQ_GITHUB_APP_ID", "Iv23abc", "numeric id"),
        ("IMQ_GITHUB_API_URL", "ghe.example/api/v3", "must be a URL"),
        ("IMQ_GITHUB_API_URL", "ftp://ghe.example", "must be a URL"),
        ("IMQ_GITHUB_API_URL", "https://github.com", "website"),
        ("IMQ_GITHUB_API_URL", "https://[ghe.example", "no URL"),
        ("IMQ_GITHUB_API_URL", "https://ghe.example:https/api/v3", "no URL"),
        ("IMQ_GITHUB_API_URL", "https://me:pass@ghe.example/api/v3", "or a password"),  # pragma: allowlist secret
        ("IMQ_GITHUB_API_URL", "http://ghe.example/api/v3", "write https://"),
        ("IMQ_GITHUB_WEBHOOK_SECRET", "hunter2", "too short: it has 7 characters, and 20 are the least"),
        ("IMQ_GITHUB_WEBHOOK_SECRET", "abcab" * 9, "too simple"),
        ("IMQ_METRICS", "public", "give open or token"),
        ("IMQ_BIND", "example.com", "IP address"),
        ("IMQ_ORGANIZATION_CONFIG", "yes", "off, tighten or trust"),
        ("DATABASE_URL", "mysql://db/imq", "sqlite:///FILE"),
        ("DATABASE_URL", "sqlite://", "names no file"),
        ("DATABASE_URL", "not a url", "cannot be read"),
        ("PORT", "http", "0 to 65535"),
        ("PORT", "70000", "0 to 65535"),
        ("IMQ_INTERVAL_SECONDS", "0", "above 0"),
        ("IMQ_INTERVAL_SECONDS", "soon", "number of seconds"),
        ("IMQ_SWEEP_SECONDS", "-1", "above 0"),
        ("IMQ_SWEEP_SECONDS", "nan", "number of seconds"),
        ("IMQ_SWEEP_SECONDS", "1e300", "number of seconds"),
        *(("IMQ_CONCURRENCY", value, "from 1 to 100") for value in ("0", "101", "many", "1.5")),
        ("IMQ_CHECK_TIMEOUT_SECONDS", "", ""),
        ("IMQ_MAX_QUEUE_DEPTH", "-1", "0 for no limit"),
        ("IMQ_TIMELINE_DAYS", "29", "30 to 36500 days"),
        ("IMQ_TIMELINE_DAYS", "36501", "30 to 36500 days"),
        ("IMQ_TIMELINE_DAYS", "-1", "whole number of days"),
        ("IMQ_TIMELINE_DAYS", "a year", "whole number of days"),
        ("IMQ_MAX_QUEUE_DEPTH", "many", "whole number"),
        ("IMQ_TRIGGER_LABEL", "x" * 51, "50 characters"),
        ("IMQ_LOG_LEVEL", "loud", "debug, info"),
        ("IMQ_LOG_FORMAT", "xml", "json or console"),
        ("IMQ_ALLOW_EPHEMERAL_SQLITE", "perhaps", "1 or 0"),
    ],
)
def test_setting_unusable_is_named_with_the_way_out(environ: dict[str, str], name: str, value: str, words: str) -> None:
    """Each message starts with the variable's name and says what would be right; empty counts as not set."""
    if not value:
        assert load_settings({**environ, name: value}) == load_settings(environ)
        return
    (problem,) = _problems({**environ, name: value})
    assert problem.startswith(name + " ")
    assert words in problem


def test_settings_missing_are_named_all_at_once() -> None:
    """The operator learns of every problem in one go."""
    problems = _problems(
        {"PORT": "http", "IMQ_LOG_LEVEL": "loud", "IMQ_GITHUB_WEBHOOK_SECRET": "  ", **WHERE_THE_DISK_IS_LOST}
    )
    assert [problem.split()[0] for problem in problems] == [
        "IMQ_GITHUB_APP_ID",
        "IMQ_GITHUB_PRIVATE_KEY",
        "IMQ_GITHUB_WEBHOOK_SECRET",
        "DATABASE_URL",
        "PORT",
        "IMQ_LOG_LEVEL",
    ]


@pytest.mark.parametrize("platform", ["DYNO", "K_SERVICE", "VCAP_APPLICATION", "RENDER"])
@pytest.mark.parametrize("url", [None, "sqlite:///data/imq.db"])
def test_sqlite_where_the_disk_is_lost_is_refused_unless_forced(
    environ: dict[str, str], platform: str, url: str | None
) -> None:
    """A queue that forgets everything at each deploy must be asked for."""
    environ |= {platform: "x"} | ({"DATABASE_URL": url} if url else {})
    (problem,) = _problems(environ)
    assert problem.startswith("DATABASE_URL is SQLite")
    assert load_settings({**environ, "IMQ_ALLOW_EPHEMERAL_SQLITE": "1"}).allow_ephemeral_sqlite


def test_postgres_where_the_disk_is_lost_is_accepted(environ: dict[str, str]) -> None:
    """The disk does not matter then."""
    environ |= {**WHERE_THE_DISK_IS_LOST, "DATABASE_URL": "postgres://u:p@db/imq"}
    assert isinstance(load_settings(environ), Settings)


def test_secrets_are_not_in_the_repr_nor_in_problems(environ: dict[str, str], pem: str) -> None:
    """What a log or a traceback prints of the settings shows no secret."""
    environ["DATABASE_URL"] = "postgres://u:pass-word@db/imq"
    environ["IMQ_GITHUB_WEBHOOK_SECRET"] = SECRET
    shown = repr(load_settings(environ)) + str(load_settings(environ))
    environ["PORT"] = "http"
    environ["DATABASE_URL"] = "mysql://u:pass-word@db/imq"
    shown += "".join(_problems(environ))
    assert not any(secret in shown for secret in ("pass-word", SECRET, pem.splitlines()[3]))


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ({}, "127.0.0.1"),
        ({"PORT": "5000"}, "0.0.0.0"),
        ({"PORT": "5000", "IMQ_BIND": "127.0.0.1"}, "127.0.0.1"),
        ({"IMQ_BIND": " [::] "}, "::"),
    ],
)
def test_address_is_everywhere_only_where_a_platform_or_the_operator_says_so(
    environ: dict[str, str], given: dict[str, str], address: str
) -> None:
    """A platform sets PORT, and reaches the process from another machine."""
    assert load_settings(environ | given).address == address


@pytest.mark.parametrize(
    ("environ", "needed"),
    [
        ({}, False),
        ({"IMQ_METRICS": "token"}, True),
        ({"IMQ_PUBLIC_URL": "https://imq.example.com"}, True),
        ({"IMQ_PUBLIC_URL": "https://imq.example.com", "IMQ_METRICS": "open"}, False),
    ],
)
def test_metrics_need_a_token_wherever_imq_has_a_public_address(environ: dict[str, str], needed: bool) -> None:
    """They sum up private repositories, too; the operator may open them."""
    assert load_host_settings(environ).metrics_need_token is needed
