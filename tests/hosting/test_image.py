"""The Dockerfile's image, built and run without Docker: small, without a shell, and writing to its volume alone.

It is not built by Docker itself here, and its base is put together from Debian's packages: see `debian_image`.
"""

import asyncio
import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hosting.debian_image import Image
from tests.hosting.platform_files import exec_form, stages
from tests.process.processes import Theatre, a_theatre

pytestmark = [pytest.mark.long]

MOST_BYTES = 150_000_000

CONTAINER = """
set -e
mount --bind {root} {root}
mount --bind /dev {root}/dev
mount -t proc proc {root}/proc
mount -t tmpfs -o uid={user},mode=700 volume {root}/data
mount -o remount,bind,ro {root}
export PATH={path}
exec /usr/sbin/chroot --userspec={user}:{user} {root} "$@"
"""
"""A mount namespace with the image as its read-only root, and a volume; network and processes are those of the host."""


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        pytest.skip("the steps of the Dockerfile need root and debootstrap: install Debian's package debootstrap")
    directory = Path(tempfile.mkdtemp(prefix="imq-image-", dir="/var/tmp"))
    directory.chmod(0o755)
    try:
        built = Image(directory)
        built.make()
        yield built
    finally:
        shutil.rmtree(directory)


def test_image_is_small_and_has_no_shell(image: Image) -> None:
    """What is not there needs no update, and helps no intruder."""
    size = image.size()
    print(f"\nthe image has {size / 1e6:.1f} MB")
    assert size < MOST_BYTES
    for name in ("sh", "bash", "dash", "apt-get", "pip", "perl", "curl"):
        assert shutil.which(name, path=image.root / "usr/bin") is None, name
        assert shutil.which(name, path=image.root / "opt/imq/bin") is None, name


def inside(image: Image) -> tuple[str, ...]:
    """What starts a program in the image, with its user; the program and its arguments follow."""
    for name in ("dev", "proc"):
        (image.root / name).mkdir(exist_ok=True)
    user = dict(stages()[-1])["USER"].split(":")[0]
    path = image.environment()["PATH"]
    script = CONTAINER.format(root=shlex.quote(str(image.root)), user=user, path=path)
    return ("unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh")


async def output(image: Image, *command: str, **settings: str) -> tuple[int | None, str]:
    """Exit code, and what a program in the image prints."""
    pipe, together = asyncio.subprocess.PIPE, asyncio.subprocess.STDOUT
    environment = image.environment() | settings | {"PATH": os.environ["PATH"]}
    process = await asyncio.create_subprocess_exec(
        *inside(image), *command, env=environment, stdout=pipe, stderr=together
    )
    printed, _ = await process.communicate()
    return process.returncode, printed.decode()


async def test_image_lands_a_pull_request_with_a_root_that_is_read_only(image: Image, tmp_path: Path) -> None:
    """User 65532 can write to the volume alone, and that is enough; the health check says that the process answers."""
    code, version = await output(image, *exec_form("ENTRYPOINT"), "--version")
    assert (code, version.split()[0]) == (0, "imq,")
    assert "Read-only file system" in (await output(image, "python", "-c", "open('/opt/imq/x', 'w')"))[1]
    async with a_theatre("sqlite:////data/imq.db", tmp_path) as theatre:
        given = {**image.environment(), **theatre.environment, "PATH": os.environ["PATH"]}
        theatre.environment = given | {"DATABASE_URL": image.environment()["DATABASE_URL"]}
        # The rest of the command line, `-m bot run`, is what `imq run` does.
        theatre.python = (*inside(image), "python", "-P")
        await theatre.start()
        await _land(theatre)
        code, printed = await output(image, *exec_form("HEALTHCHECK"), PORT=str(theatre.port))
        assert code == 0, printed
        assert await theatre.stop() == 0
        code, printed = await output(image, *exec_form("HEALTHCHECK"), PORT=str(theatre.port))
        assert code == 1, "a container whose process does not answer is unhealthy"


async def _land(theatre: Theatre) -> None:
    files = {"b.md": "b\n"}
    pull = theatre.repository.open_pull_request("A change", head="change", files=files, by="mona")
    pull.label("merge-queue", by="mona")
    await theatre.until(lambda: pull.merged)
