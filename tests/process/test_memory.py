"""What a process holds in memory at its start, and what strangers can make it hold."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from imq_demo.bot_process import port_in
from tests.acceptance.starting import lay_out
from tests.acceptance.template import ROOT
from tests.support.real_time import LIMIT

CROWD = 700
"""More connections than a process keeps."""
ROUNDS = 2
KIB = 1024
UNITS = {
    "Ki": KIB,
    "Mi": KIB**2,
    "Gi": KIB**3,
    "k": KIB,
    "m": KIB**2,
    "g": KIB**3,
    "kb": KIB,
    "mb": KIB**2,
    "M": KIB**2,
}
_LIMIT = re.compile(r"^(?!.*requests)[^#\n]*(?:mem_limit|memory|MemoryMax)\s*[:=]\s*\"?(\d+)([A-Za-z]+)", re.MULTILINE)
_HEAD = (
    "POST /webhook HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nX-GitHub-Event: push\r\n"
    "X-GitHub-Delivery: d-1\r\nX-Hub-Signature-256: sha256={}\r\n"
).format("0" * 64)


def limits() -> dict[str, int]:
    """The limits of memory in the manifests, in bytes, by file."""
    files = [ROOT / "fly.toml", ROOT / "render.yaml", *sorted((ROOT / "deploy").rglob("*.y*ml"))]
    files.append(ROOT / "deploy/systemd/imq.service")
    found = {str(each.relative_to(ROOT)): _LIMIT.findall(each.read_text(encoding="utf-8")) for each in files}
    return {name: min(int(number) * UNITS[unit] for number, unit in given) for name, given in found.items() if given}


def body_of(size: int) -> bytes:
    """A request whose body misses its last byte."""
    return f"{_HEAD}Content-Length: {size + 1}\r\n\r\n".encode() + b"x" * size


def chunks_of(size: int) -> bytes:
    """A request whose body comes in chunks, and does not end."""
    return f"{_HEAD}Transfer-Encoding: chunked\r\n\r\n{size:x}\r\n".encode() + b"x" * size + b"\r\n"


def header_of(size: int) -> bytes:
    """A request whose header does not end."""
    fields = "".join(f"X-Field-{number}: {'x' * 7900}\r\n" for number in range(size // 8000 + 1))
    return (_HEAD + fields).encode()


FLOODS: dict[str, Callable[[], Iterator[bytes]]] = {
    "small": lambda: (body_of(100 * KIB) for _ in range(CROWD)),
    "large": lambda: (body_of(25 * KIB**2 - KIB) for _ in range(12)),
    "mixed": lambda: (body_of((1 + number * 37 % 3000) * KIB) for number in range(CROWD)),
    "chunks": lambda: (chunks_of((1 + number * 53 % 2000) * KIB) for number in range(CROWD)),
    "headers": lambda: (header_of(400 * KIB) for _ in range(CROWD)),
}


NEVER_AT_START = {
    *(
        "alembic",
        "imq_demo",
        "bot.doctor.examination",
        "bot.gateway.doctor_reads",
        "bot.registration.manifest_flow",
        "jinja2",
        "jsonschema",
        "dotenv",
        "jwt",
        "mako",
        "psycopg",
    ),
    *("github_emulator", "pydantic_settings", "pygal", "pygit2", "pygments", "re2", "rich", "ruamel"),
    *("sqlalchemy.dialects.postgresql", "sqlalchemy.orm", "tests"),
}
"""What most processes on SQLite never use, or use once: each is imported when it is used."""

MOST_MODULES = 1050
MOST_AT_START = 103 * KIB**2
"""The budget is 100 MiB. What a start allocates differs by up to three percent where other work delays its threads."""
_IMPORTS = """
import sys
from bot.cli.main import main
main.commands["run"]
from bot.process.process_memory import imported_for_good
with imported_for_good():
    from bot.process import lifecycle
print(*sys.modules)
"""


@pytest.fixture(scope="module")
def imported() -> set[str]:
    """The modules of a start. They are compiled then: a process that compiles them itself takes up to 7 MB more."""
    child = subprocess.run([sys.executable, "-c", _IMPORTS], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(child.stdout.split())


@pytest.fixture
async def process(tmp_path: Path, imported: set[str]) -> AsyncIterator[tuple[int, int]]:
    """A process on SQLite, beside a GitHub that is not there: its id and its port."""
    await lay_out(tmp_path / "imq.db")
    async with running(tmp_path) as found:
        yield found


@asynccontextmanager
async def running(directory: Path) -> AsyncIterator[tuple[int, int]]:
    """Run a process on the database of a directory; yield its id and its port."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    environment = {
        "PATH": os.environ["PATH"],
        "PORT": "0",
        "DATABASE_URL": f"sqlite:///{directory}/imq.db",
        "IMQ_BIND": "127.0.0.1",
        "IMQ_GITHUB_APP_ID": "1",
        "IMQ_GITHUB_PRIVATE_KEY": key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
        "IMQ_GITHUB_WEBHOOK_SECRET": "a secret that nobody guesses, and long enough",
        "IMQ_GITHUB_API_URL": "http://127.0.0.1:9",
    }
    log = directory / "log"
    with log.open("wb") as output:
        started = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bot", "run"), cwd=ROOT, env=environment, stdout=output, stderr=output
        )
    try:
        async with asyncio.timeout(LIMIT):
            while (port := port_in(log)) is None:
                assert started.returncode is None, log.read_text(encoding="utf-8")
                await asyncio.sleep(0.02)  # no-sleep-ok: a real process starts in real time
        yield started.pid, port
        assert started.returncode is None, log.read_text(encoding="utf-8")[-3000:]
    finally:
        if started.returncode is None:
            started.kill()
            await started.wait()


def resident(pid: int, name: str = "VmRSS") -> int:
    """Bytes of a process in memory now; `VmHWM`: the most so far."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(re.findall(rf"{name}:\s+(\d+) kB", status)[0]) * KIB


def test_run_imports_nothing_that_it_does_not_use(imported: set[str]) -> None:
    """A library that comes along by an import at the top of some module is memory for as long as a process runs."""
    assert imported & NEVER_AT_START == set()
    assert 800 < len(imported) <= MOST_MODULES


async def test_process_is_small_at_its_start(tmp_path: Path) -> None:
    """On a database that has its tables; to make them takes 12 MB more until the next start.

    The first start after an installation compiles what it imports while it runs, and takes 4 MB more.
    """
    await lay_out(tmp_path / "imq.db")
    async with running(tmp_path):
        pass
    async with running(tmp_path) as (pid, _):
        assert resident(pid) <= MOST_AT_START, resident(pid) >> 20


async def flood(port: int, requests: Iterator[bytes]) -> None:
    """Send all of these at once, and leave each open until all are sent or refused."""
    async with AsyncExitStack() as stack:

        async def send(content: bytes) -> None:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                stack.enter_context(closing(writer))
                writer.write(content)
                async with asyncio.timeout(1):
                    await writer.drain()
            except (OSError, TimeoutError):
                pass

        await asyncio.gather(*map(send, requests))
        await asyncio.sleep(0.5)  # no-sleep-ok: a real process receives in real time


async def test_strangers_flood_keeps_a_process_below_the_smallest_limit_that_we_ship(process: tuple[int, int]) -> None:
    """P5: strangers brought a process from 84 to 535 MB, and it stayed there; the system ends it at 256 MB."""
    pid, port = process
    smallest = min(limits().values())
    assert smallest == 256 * KIB**2, limits()
    before, figures = resident(pid), {}
    for name, requests in FLOODS.items():
        for _ in range(ROUNDS):
            await flood(port, requests())
        figures[name] = (resident(pid) >> 20, resident(pid, "VmHWM") >> 20)
    assert resident(pid, "VmHWM") < smallest - 32 * KIB**2, (before >> 20, figures)
    assert resident(pid) < smallest - 48 * KIB**2, (before >> 20, figures)
