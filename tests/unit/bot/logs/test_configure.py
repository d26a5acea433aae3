"""Lines of the log: structured, and without secrets."""

import io
import json
import logging
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import structlog

from bot.logs.configure import configure, mask
from queue_engine.core.database.outage import Busy
from queue_engine.core.observability import trace
from queue_engine.domain.errors import GitHubError, Invalid, NotFound, RateLimitError, Unavailable


@pytest.fixture(autouse=True)
def _logging_restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


def _lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_line_has_event_level_time_and_bound_delivery() -> None:
    """One JSON object per line; times are UTC."""
    stream = io.StringIO()
    configure("info", "json", stream)
    with structlog.contextvars.bound_contextvars(delivery="d-1"):
        structlog.get_logger("imq").info("stored", number=3)
    (line,) = _lines(stream)
    assert (line["event"], line["level"], line["number"], line["delivery"]) == ("stored", "info", 3, "d-1")
    assert line["timestamp"].endswith("Z")
    assert stream.getvalue().startswith('{"event"')


def test_standard_librarys_records_are_lines_of_the_same_kind() -> None:
    """Libraries log through the standard library."""
    stream = io.StringIO()
    configure("info", "json", stream)
    logging.getLogger("aiohttp.server").error("broken %s", "pipe")
    (line,) = _lines(stream)
    assert (line["event"], line["level"], line["logger"]) == ("broken pipe", "error", "aiohttp.server")


@pytest.mark.parametrize(("level", "lines"), [("info", 0), ("debug", 1)])
def test_revisions_of_a_migration_are_logged_for_debugging_only(level: str, lines: int) -> None:
    """On an empty database there are dozens, before the lines that tell how the first start went."""
    stream = io.StringIO()
    configure(level, "json", stream)
    logging.getLogger("alembic.runtime.migration").info("Running upgrade 0001 -> 0002")
    assert len(_lines(stream)) == lines


@pytest.mark.parametrize(
    ("logger", "component"),
    [
        ("imq.jobs", "jobs"),
        ("bot.webhooks.receiver", "receiver"),
        ("bot.gateway.http.connection", "connection"),
        ("notifications.outbox_dispatcher", "outbox_dispatcher"),
        ("imq", "imq"),
        ("aiohttp.server", "aiohttp"),
        ("root", "root"),
    ],
)
def test_line_names_the_component_that_logs_it(logger: str, component: str) -> None:
    """An operator can filter by one component of IMQ, and a library's lines have another."""
    stream = io.StringIO()
    configure("info", "json", stream)
    structlog.get_logger(logger).info("by structlog")
    logging.getLogger(None if logger == "root" else logger).info("by the standard library")
    assert [line["component"] for line in _lines(stream)] == [component, component]


def test_line_within_a_trace_has_its_ids_and_one_outside_has_none() -> None:
    """Also the lines of libraries: each line logged during the work on a delivery belongs to it."""
    stream = io.StringIO()
    configure("info", "json", stream)
    structlog.get_logger("imq").info("outside")
    with trace.of_delivery("72d3162e-cc78-11e3-81ab-4c9367dc0958"):
        structlog.get_logger("imq").info("inside")
        logging.getLogger("aiohttp").info("inside as well")
    outside, *inside = _lines(stream)
    assert not {"trace_id", "span_id"} & outside.keys()
    assert {line["trace_id"] for line in inside} == {"72d3162ecc7811e381ab4c9367dc0958"}
    assert all(len(line["span_id"]) == 16 for line in inside)


def test_debug_level_shows_no_statements_of_the_databases_driver() -> None:
    """They hold every value that is stored, payloads among them."""
    stream = io.StringIO()
    configure("debug", "json", stream)
    logging.getLogger("aiosqlite").debug("executing INSERT with everything")
    logging.getLogger("sqlalchemy.engine.Engine").info("INSERT with everything")
    logging.getLogger("aiosqlite").warning("broken")
    assert [line["event"] for line in _lines(stream)] == ["broken"]


@pytest.mark.parametrize(("level", "lines"), [("info", 0), ("debug", 1)])
def test_what_postgres_driver_ignores_is_logged_for_debugging_only(level: str, lines: int) -> None:
    """On a full disk it warns in each transaction, beside the error that it raises."""
    stream = io.StringIO()
    configure(level, "json", stream)
    logging.getLogger("psycopg").warning("error ignored terminating %s", "pipeline")
    assert len(_lines(stream)) == lines


def test_level_hides_what_is_below() -> None:
    """Debug lines, one per request to GitHub, are for those who ask for them."""
    stream = io.StringIO()
    configure("warning", "json", stream)
    structlog.get_logger("imq").info("quiet")
    logging.getLogger("imq").info("quiet")
    assert stream.getvalue() == ""


def test_format_defaults_to_json_without_a_terminal() -> None:
    """Console lines are for terminals."""
    stream = io.StringIO()
    configure(stream=stream)
    structlog.get_logger("imq").info("stored")
    assert _lines(stream)[0]["event"] == "stored"


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_secrets_are_masked_wherever_they_stand(pem: str, log_format: str) -> None:
    """In values, inside of values, in tracebacks, and in other people's records."""
    stream = io.StringIO()
    configure("info", log_format, stream)
    logger = structlog.get_logger("imq")
    local = "ghs_inAlocalVariable"
    logger.info(
        "a", key=pem, escaped=pem.replace("\n", "\\n"), nested={"list": ["ghs_abcdef123456"]}, other=b"ghp_bytes"
    )
    logger.info("token ghu_abcdef123456 in the event")
    logging.getLogger("x").info("Authorization: bearer %s", "opaque-token-of-any-length")
    try:
        raise ValueError(f"postgres://imq:pass-word@db/imq {local[:4]}raisedWithIt")
    except ValueError:
        logger.exception("failed")
    written = stream.getvalue()
    assert "[secret]" in written
    body = pem.splitlines()[1:-1]
    for secret in (*body, "ghs_", "ghp_", "ghu_", "opaque-token", "pass-word"):
        assert secret not in written
    assert "ValueError" in written


@pytest.mark.parametrize(
    "harmless",
    [
        "the token was renewed",
        "refs/heads/ghs",
        "http://127.0.0.1:8080/webhook",
        "bearer of news",
        "imq_github_requests_total",
    ],
)
def test_harmless_text_stays_as_it_is(harmless: str) -> None:
    """A log full of masks would have no use."""
    assert mask(harmless) == harmless


@pytest.mark.parametrize(
    "secret",
    [
        "ghs_" + "a" * 516,
        "github_pat_11ABC_def",
        "imq_" + "aB3-_" * 8 + "xyz",
        "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiI3NyJ9.c2lnbmF0dXJl",
        "Bearer v1.1f699f1069f60xxx",
        "token 1f699f1069f60aaaabbb",
    ],
)
def test_token_of_any_kind_is_masked(secret: str) -> None:
    """Tokens are opaque, of any length, and change their looks."""
    assert secret.split()[-1] not in mask(f"sent {secret}, then left")
    assert mask(f"sent {secret}, then left").endswith(", then left")


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_control_characters_never_reach_a_console(log_format: str) -> None:
    """Events, values, lists of them, and errors that quote them: nothing clears the screen or forges a line."""
    stream = io.StringIO()
    configure("info", log_format, stream)
    evil = "x\x1b[2J\u202e\x9b\ud800\r\n2026-01-05 [info     ] landed"
    log = structlog.get_logger("imq")
    try:
        raise ValueError(evil)
    except ValueError:
        log.exception("failed", branch=evil, labels=[evil], one="plain")
    log.info(evil)
    logging.getLogger("aiohttp.server").error("%s", evil)
    shown = stream.getvalue()
    shown.encode()
    assert shown.replace("\n", "").replace("\t", "").isprintable()
    assert [line for line in shown.splitlines() if line.startswith("2026-01-05 [info")] == []


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (Unavailable("Cannot connect to api.github.com"), "Unavailable: Cannot connect to api.github.com"),
        (RateLimitError("slow down", retry_after=timedelta(seconds=9)), "RateLimitError: slow down"),
        (NotFound("the pull request: Not Found", status=404), "NotFound: the pull request: Not Found"),
    ],
)
@pytest.mark.parametrize("log_format", ["json", "console"])
def test_outage_of_github_is_one_line_without_a_traceback(error: GitHubError, words: str, log_format: Any) -> None:
    """In the log of an hour without GitHub an operator finds what is IMQ's own fault."""
    stream = io.StringIO()
    configure("info", log_format, stream)
    try:
        try:
            raise OSError("refused")
        except OSError as cause:
            raise error from cause
    except GitHubError as raised:
        structlog.get_logger("imq").warning("job_raised", exc_info=raised)
    assert len(stream.getvalue().splitlines()) == 1
    assert words in stream.getvalue()
    assert "Traceback" not in stream.getvalue()


@pytest.mark.parametrize(
    "error", [RuntimeError("broken"), Invalid("Validation Failed", status=422), GitHubError("Bad Request", status=400)]
)
def test_unexpected_error_keeps_its_traceback(error: Exception) -> None:
    """A mistake of ours is found by where it was made, a request that GitHub cannot read among them."""
    stream = io.StringIO()
    configure("info", "json", stream)
    try:
        raise error
    except type(error):
        structlog.get_logger("imq").exception("job_raised")
    (line,) = _lines(stream)
    assert "Traceback" in line["exception"]


@pytest.mark.parametrize(("error", "level"), [(Busy("the writer"), "warning"), (RuntimeError("broken"), "error")])
def test_error_in_the_log_is_a_fault_of_imq(error: Exception, level: str) -> None:
    """An outage of the database passes, or a person ends it: an alert on errors stays silent."""
    stream = io.StringIO()
    configure("info", "json", stream)
    try:
        raise error
    except type(error):
        structlog.get_logger("imq").exception("loop_failed")
    (line,) = _lines(stream)
    assert line["level"] == level
