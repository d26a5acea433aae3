"""The image of the Dockerfile without Docker: its instructions, carried out in a Debian of its own.

The first stage runs in what debootstrap makes. The base of the last stage is put together from the Debian packages of
which distroless makes `python3-debian13` (its cc, base and python3 `config.bzl`, August 2026); no other file is in it.
"""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from docs.generate import ROOT
from tests.hosting.platform_files import image_environment, stages

RELEASE = "trixie"
_BASE = (
    "base-files ca-certificates libc6 libssl3t64 libzstd1 media-types netbase tzdata zlib1g libgcc-s1 libgomp1 "
    "libstdc++6 libbz2-1.0 libcom-err2 libcrypt1 libdb5.3t64 libexpat1 libffi8 libgssapi-krb5-2 libk5crypto3 "
    "libkeyutils1 libkrb5-3 libkrb5support0 liblzma5 libncursesw6 libnsl2 libpython3.13-minimal "
    "libpython3.13-stdlib libreadline8t64 libsqlite3-0 libtinfo6 libtirpc3t64 libuuid1 libc-bin "
    "python3.13-minimal python3.13-venv "
)
INSTRUCTIONS = {"ARG", "COPY", "FROM", "RUN", "WORKDIR"}
"""What a stage that builds may have here."""
NAMES = {"trixie": "13"}
"""Debian's releases by the number in the names of images."""


class Image:
    """The build of the Dockerfile: the folder of each stage."""

    def __init__(self, directory: Path) -> None:
        self.build, self.root = directory / "build", directory / "image"

    def make(self) -> None:
        """Carry out all instructions. Needs root, debootstrap and the package indexes."""
        first, last = stages()
        assert first[0] == ("FROM", f"debian:{NAMES[RELEASE]}-slim AS build")
        _run("debootstrap", "--variant=minbase", RELEASE, str(self.build))
        directory, arguments = "/", list[str]()
        for name, rest in first[1:]:
            if name == "WORKDIR":
                directory = rest
                (self.build / rest[1:]).mkdir(exist_ok=True)
            elif name == "COPY":
                source, *_, target = shlex.split(rest)
                for source in shlex.split(rest)[:-1]:
                    left_out = shutil.ignore_patterns("__pycache__")  # as .dockerignore does
                    _copy(ROOT / source, self.build / directory[1:] / ("" if target == "./" else target), left_out)
            elif name == "ARG":
                arguments.append(f"export {rest}; ")
            else:
                assert name == "RUN", name
                self._chroot(f"{''.join(arguments)}cd {directory} && {rest}")
        self._base()
        for name, rest in last:
            if name == "COPY":
                *options, source, target = shlex.split(rest)
                _copy(self.build / source[1:], self.root / target[1:])
                for owner in (each.partition("=")[2] for each in options if each.startswith("--chown=")):
                    _run("chown", "--recursive", owner, str(self.root / target[1:]))

    def size(self) -> int:
        """Return the bytes of all files, as `docker image ls` counts them."""
        return sum(path.lstat().st_size for path in self.root.rglob("*") if path.is_file() and not path.is_symlink())

    def environment(self) -> dict[str, str]:
        """Return the variables that the image and its base set."""
        return {"LANG": "C.UTF-8", **image_environment()}

    def _share_network(self) -> None:
        """Let the build reach the package indexes as this machine does."""
        certificates = [os.environ.get(name, "") for name in ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE")]
        for path in {"/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf", *filter(None, certificates)}:
            if Path(path).is_file():
                _copy(Path(path), self.build / path[1:])

    def _base(self) -> None:
        """Put the base of the last stage together."""
        self._chroot(f"apt-get update && apt-get install --yes --no-install-recommends {_BASE}")
        listed = self._chroot(f"dpkg -L {_BASE}").splitlines()
        kept = sorted(
            {line for line in listed if line.startswith("/") and not re.match(r"/(?:bin|sbin|lib\w*)(?:/|$)", line)}
        )
        names = "\n".join(f".{name}" for name in kept)
        (self.build / "kept").write_text(names)
        self.root.mkdir()
        for name in ("bin", "lib", "lib64", "sbin"):
            if (self.build / name).is_symlink():
                (self.root / name).symlink_to(os.readlink(self.build / name))
        pack = f"tar --create --no-recursion --directory {self.build} --files-from {self.build}/kept"
        _run("sh", "-c", f"{pack} | tar --extract --directory {self.root}")
        (self.root / "usr/bin/python3").symlink_to("python3.13")
        for name in ("etc/ld.so.cache", "etc/ssl/certs/ca-certificates.crt"):
            _copy(self.build / name, self.root / name)

    def _chroot(self, command: str) -> str:
        self._share_network()  # each time: an installed package may have replaced the certificates
        environment = {**os.environ, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"}
        return _run("chroot", str(self.build), "sh", "-c", command, environment=environment)


def _copy(source: Path, target: Path, left_out: Callable[[str, list[str]], set[str]] | None = None) -> None:
    """Copy as COPY does: a folder's content, symbolic links as they are."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True, ignore=left_out)
    else:
        shutil.copy2(source, target)


def _run(*command: str, environment: dict[str, str] | None = None) -> str:
    pipe = subprocess.PIPE
    done = subprocess.run(command, env=environment, stdout=pipe, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, (command, done.stdout[-3000:])
    return done.stdout
