"""The files of a release are the same wherever they are built, and their checksums are those of other tools."""

import os
import subprocess
import tarfile
import zipfile
from pathlib import Path

from bot import __version__
from docs.generate import ROOT
from tests.hosting.test_helm import GIVEN, helm
from tests.support.release_files import PROJECTS, SUMS, build, main


def test_release_is_built_twice_to_the_same_bytes(tmp_path: Path) -> None:
    """Anyone can compare the published files with what the tag's commit gives, whatever their machine's rights are."""
    first, second = tmp_path / "first", tmp_path / "further" / "second"
    bill = tmp_path / "imq.cdx.json"
    bill.write_text("{}")
    build(first, "HEAD", [bill])
    former = os.umask(0o077)
    try:
        build(second, "HEAD", [bill])
    finally:
        os.umask(former)
    built = {each.name: each.read_bytes() for each in first.iterdir()}
    assert built == {each.name: each.read_bytes() for each in second.iterdir()}
    assert len(built) == 2 * len(PROJECTS) + 2
    assert f"imq-{__version__}.cdx.json" in built
    assert helm(GIVEN, chart=first / f"imq-chart-{__version__}.tgz") == helm(GIVEN)
    shown = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, check=True, capture_output=True)
    with tarfile.open(first / f"imq-{__version__}.tar.gz") as archive:
        assert {(each.mtime, each.uid, each.uname) for each in archive} == {(int(shown.stdout), 0, "")}
    with zipfile.ZipFile(first / f"imq-{__version__}-py3-none-any.whl") as package:
        assert len({each.date_time for each in package.infolist()}) == 1


def test_checksums_are_those_of_coreutils(tmp_path: Path) -> None:
    """A person without Python compares the files by `sha256sum`."""
    (tmp_path / "imq.tar.gz").write_bytes(b"an archive")
    assert main(["sign", str(tmp_path)]) == 0
    check = ["sha256sum", "--check", "--strict", SUMS]
    assert subprocess.run(check, cwd=tmp_path, check=False).returncode == 0
    (tmp_path / "imq.tar.gz").write_bytes(b"another")
    assert subprocess.run(check, cwd=tmp_path, check=False).returncode == 1
