"""The files of a release, their checksums and their signed statement: `make release`.

`build` makes every package of a commit, twice the same to the byte: only committed files go in, with the time of the
commit. `sign` writes SHA256SUMS and an in-toto statement about all files, in a DSSE envelope such as passports have.
`verify` reads what a folder claims. CONTRIBUTING.md has the recipe.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from securesystemslib.dsse import Envelope
from securesystemslib.signer import CryptoSigner

from bot import __version__
from bot.passport.statement import PAYLOAD_TYPE, STATEMENT, PassportError, payload, verify
from docs.generate import ROOT

if TYPE_CHECKING:
    from securesystemslib.signer import Signer

PROJECTS = {"": "imq", "demo": "imq_demo", "emulator": "github_emulator"}
"""The projects of this clone by their folders, and the names that their files begin with."""
FOLDERS = ("bot", "notifications", "queue_engine")
"""The packages of IMQ's own project."""
FILES = ("pyproject.toml", "README.md", "LICENSE", "app.yml")
CHART = "deploy/helm/imq"
SUMS = "SHA256SUMS"
ENVELOPE, KEYS = f"imq-{__version__}.intoto.json", f"imq-{__version__}.keys.json"
RELEASE = "https://in-toto.io/attestation/release/v0.1"
"""The type of in-toto's predicate about a release ("in-toto Attestation Framework", Predicate type: Release)."""
_BUILD = "import sys; from setuptools import build_meta as made; made.build_{0}(sys.argv[1])"


def build_package(source: Path, project: str, kind: str, directory: Path, *, at: int | None = None) -> Path:
    """Build a project from a copy of its folder, as `kind` says; returns the file, which is in `directory`.

    `source` has the folders of this clone. `at` is the time that all files get, in seconds of the Unix epoch.
    """
    with tempfile.TemporaryDirectory() as work:
        copy = Path(work)
        left_out = shutil.ignore_patterns("__pycache__", "*.egg-info", "build", "tests" if project else "")
        for folder in FOLDERS if not project else (project,):
            shutil.copytree(source / folder, copy / folder, ignore=left_out)
        for file in FILES if not project else ():
            shutil.copy(source / file, copy)
        command = [sys.executable, "-c", _BUILD.format(kind), str(copy / "dist")]
        surroundings = os.environ if at is None else os.environ | {"SOURCE_DATE_EPOCH": str(at)}
        # setuptools takes rights of files that it writes from the umask.
        done = subprocess.run(
            command, cwd=copy / project, env=surroundings, umask=0o022, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"setuptools built no {kind} of {PROJECTS[project]}:\n{done.stderr}")
        (built,) = (copy / "dist").iterdir()
        if kind == "sdist" and at is not None:
            _repack(built, at)
        return Path(shutil.move(built, directory / built.name))


def _repack(archive: Path, at: int) -> None:
    """Give an archive one order, one time, one owner and plain rights: setuptools takes those of the machine."""
    with tarfile.open(archive) as read:
        found = list(read)
        content = {each.name: taken.read() for each in found if (taken := read.extractfile(each)) is not None}
    archive.write_bytes(_packed(found, content, at))


def _chart(source: Path, directory: Path, at: int) -> None:
    """Pack the Helm chart as `helm package` does: an archive of the folder by the chart's name."""
    files = sorted(path for path in source.rglob("*") if path.is_file())
    content = {f"imq/{path.relative_to(source).as_posix()}": path.read_bytes() for path in files}
    packed = _packed([tarfile.TarInfo(name) for name in content], content, at)
    (directory / f"imq-chart-{__version__}.tgz").write_bytes(packed)


def _packed(found: Iterable[tarfile.TarInfo], content: Mapping[str, bytes], at: int) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as written:
        for each in sorted(found, key=lambda each: each.name):
            entry = tarfile.TarInfo(each.name)
            entry.type, entry.mtime, entry.mode = each.type, at, 0o755 if each.isdir() else 0o644
            entry.size = len(content.get(each.name, b""))
            written.addfile(entry, io.BytesIO(content.get(each.name, b"")))
    return gzip.compress(packed.getvalue(), mtime=at)


def build(directory: Path, commit: str, others: Iterable[Path] = ()) -> None:
    """Build the packages of a commit of this clone, and put other files of the release beside them."""
    directory.mkdir(parents=True)
    at = int(_git("log", "-1", "--format=%ct", commit))
    with tempfile.TemporaryDirectory() as work:
        sources = _git("-c", "tar.umask=0022", "archive", commit, "--", *FOLDERS, *FILES, "demo", "emulator", CHART)
        with tarfile.open(fileobj=io.BytesIO(sources)) as read:
            # `extractall` has no filter before 3.11.4; the rights are those of git's archive.
            read.extraction_filter = getattr(tarfile, "data_filter", lambda member, _path: member)
            read.extractall(work)
        for project in PROJECTS:
            for kind in ("wheel", "sdist"):
                build_package(Path(work), project, kind, directory, at=at)
        _chart(Path(work) / CHART, directory, at)
    for each in others:
        suffixes = "".join(each.suffixes[-2:])
        shutil.copy(each, directory / f"{each.name.removesuffix(suffixes)}-{__version__}{suffixes}")


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True).stdout


def _digests(directory: Path) -> dict[str, str]:
    """Return the SHA-256 of each file that the release publishes, by its name."""
    files = sorted(each for each in directory.iterdir() if each.name not in {SUMS, ENVELOPE, KEYS})
    return {each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in files}


def statement(digests: Mapping[str, str]) -> dict[str, Any]:
    """Return what the signature says: these files are this version of IMQ."""
    return {
        "_type": STATEMENT,
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in digests.items()],
        "predicateType": RELEASE,
        "predicate": {"purl": f"pkg:pypi/imq@{__version__}"},
    }


def sign(directory: Path, key: Path | None) -> str:
    """Write checksums, envelope and public key. Returns the key's id.

    `key` is an Ed25519 key as PEM; without one a new key signs, which proves nothing to others.
    """
    private = None if key is None else load_pem_private_key(key.read_bytes(), password=None)
    if private is not None and not isinstance(private, Ed25519PrivateKey):
        raise ValueError(f"{key} is no Ed25519 key")
    signer: Signer = CryptoSigner.generate_ed25519() if private is None else CryptoSigner(private)
    digests, public = _digests(directory), signer.public_key
    sums = "".join(f"{digest}  {name}\n" for name, digest in digests.items())
    (directory / SUMS).write_text(sums, encoding="ascii")
    signed = Envelope(payload(statement(digests)), PAYLOAD_TYPE, {})
    signed.sign(signer)
    _write(directory / ENVELOPE, signed.to_dict())
    _write(directory / KEYS, {"keys": {public.keyid: public.to_dict()}})
    return str(public.keyid)


def _write(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="ascii")


def faults(directory: Path, keys: Path) -> list[str]:
    """Return what a release's folder claims wrongly; empty if one of these keys signed exactly its files."""
    try:
        known = json.loads(keys.read_text(encoding="utf-8"))["keys"]
        signed = json.loads((directory / ENVELOPE).read_text(encoding="utf-8"))
        proved = verify(signed, known)
        sums = dict(line.split("  ")[::-1] for line in (directory / SUMS).read_text(encoding="utf-8").splitlines())
    except PassportError as problem:
        return [f"{ENVELOPE} proves nothing: {problem}"]
    except (OSError, ValueError, KeyError) as problem:
        return [f"the release or its keys cannot be read: {problem!r}"]
    digests = _digests(directory)
    try:
        stated = {each["name"]: each["digest"]["sha256"] for each in proved["subject"]}
    except (KeyError, TypeError):
        stated = {}
    if proved != statement(stated):
        return [f"{ENVELOPE} is no statement about IMQ {__version__}"]
    names = sorted(digests.keys() | stated.keys() | sums.keys())
    return [
        f"{name} is not the file that was signed"
        for name in names
        if not digests.get(name) == stated.get(name) == sums.get(name)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Build, sign or verify. Return 0, or 1 with every fault of a folder."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.release_files", description=__doc__)
    parser.add_argument("step", choices=("build", "sign", "verify"))
    parser.add_argument("directory", type=Path)
    parser.add_argument("--commit", default="HEAD", help="what to build")
    parser.add_argument("--with", dest="others", type=Path, action="append", default=[], help="another file")
    parser.add_argument("--key", type=Path, help="an Ed25519 key as PEM; without it a new key signs, for a trial")
    parser.add_argument("--keys", type=Path, help="the public keys that you trust; without it those of the folder")
    asked = parser.parse_args(arguments)
    if asked.step == "build":
        build(asked.directory, asked.commit, asked.others)
    elif asked.step == "sign":
        by = sign(asked.directory, asked.key)
        print(f"signed by {by}" + ("" if asked.key else ", a new key: a trial, which proves nothing to others"))
    else:
        found = faults(asked.directory, asked.keys or asked.directory / KEYS)
        print("\n".join(f"- {each}" for each in found) or f"{asked.directory} has exactly the signed files")
        return 1 if found else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
