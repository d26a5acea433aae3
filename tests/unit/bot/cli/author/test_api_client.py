"""The client of the commands for authors: where a token is sent, and how failures read."""

import socket
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from subprocess import run

import pytest

from bot.cli.author.api_client import ApiClient, ConnectionFailed, server_url
from bot.cli.console import ExitCode
from tests.support.documents import read, rows


class Page(BaseHTTPRequestHandler):
    """Answers as the path says."""

    def do_GET(self) -> None:
        number, _, cut = self.path.strip("/").partition("-")
        status = int(number)
        self.send_response(status)
        if cut:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b'20\r\n{"error"')
            return
        if status == 302:
            self.send_header("Location", "http://127.0.0.1:1/200")
        self.end_headers()
        self.wfile.write(b"<html>" if status == 200 else b'{"error": "no"}')

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_token_follows_no_redirect(url: str) -> None:
    """Another host would get it; the message says where to log in."""
    with pytest.raises(ConnectionFailed, match=r"redirects to http://127.0.0.1:1/200.*imq login"):
        ApiClient(url, "imq_secret").call("GET", "/302")


def test_page_of_a_proxy_is_no_answer_of_imq(url: str) -> None:
    """The message names the likely cause."""
    with pytest.raises(ConnectionFailed, match="a proxy between"):
        ApiClient(url).call("GET", "/200")


def test_refusal_is_an_answer(url: str) -> None:
    """With its sentence."""
    answer = ApiClient(url).call("GET", "/404")
    assert (answer.status, answer.sentence) == (404, "no")


@pytest.mark.parametrize("status", [200, 404, 502])
def test_answer_that_is_cut_off_is_none(url: str, status: int) -> None:
    """Whatever its status: what a broken connection left is no answer."""
    with pytest.raises(ConnectionFailed, match="does not answer"):
        ApiClient(url, "imq_secret").call("GET", f"/{status}-cut")


def test_server_that_is_away_is_named() -> None:
    """Without a traceback, and without the token."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(ConnectionFailed, match=f"{url} does not answer: connection refused"):
            ApiClient(url, "imq_secret").call("GET", "/200")


@pytest.mark.parametrize(
    "given", ["http://imq.example.com", "ftp://imq", "https://imq/path", "https://a:b@imq", "", "a b:c"]
)
def test_address_that_is_none_or_unsafe_is_refused(given: str) -> None:
    """A token goes over plain http only within a machine or a private network."""
    with pytest.raises(ValueError, match=r"no address|plain http"):
        server_url(given)


def test_address_may_leave_out_the_scheme() -> None:
    """It is https then."""
    assert server_url("imq.example.com/") == "https://imq.example.com"
    assert server_url("http://localhost:8080/") == "http://localhost:8080"


def test_exit_codes_are_those_of_the_page() -> None:
    """Scripts rely on the table."""
    listed = [row for row in rows(read("docs/command-line.md")) if row[0].strip("`").isdigit()]
    assert [int(row[0].strip("`")) for row in listed if row[1]] == list(ExitCode)


@pytest.mark.process
def test_commands_for_authors_import_nothing_of_a_server() -> None:
    """They start in a fraction of the time: neither pydantic nor aiohttp, and no database."""
    code = (
        "import sys, bot.cli.main as main; [main.main.commands[name] for name in ('login', 'land', 'status', 'why')];"
        "print(sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    done = run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[5])
    heavy = ("pydantic", "aiohttp", "sqlalchemy", "structlog", "queue_engine", "notifications", "gidgethub", "jinja2")
    assert not [name for name in heavy if f"'{name}'" in done.stdout]
