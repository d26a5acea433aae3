"""A release is whole: version, changelog, tag, database and tolerated revision agree; its files are the signed ones."""

import base64
import hashlib
import json
import shutil
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from bot import __version__
from tests.acceptance.landing_witness import verified_by_hand
from tests.support import release as checked
from tests.support import release_files
from tests.support.release import Release, Section, faults, main, ordered, present, sections_of

TODAY = date(2026, 12, 1)
WHOLE = Release(
    version="1.1.0",
    sections=(Section("1.1.0", TODAY, "- New."), Section("1.0.0", date(2026, 11, 1), "- First.")),
    head="0031",
    oldest="0029",
    databases={"1.0.0": "0029", "1.1.0": "0031"},
    tags=("v1.0.0",),
    demo=("1.1.0", "1.1.0"),
    chart=("1.1.0", "1.1.0"),
)


def test_release_that_is_whole_has_no_fault() -> None:
    """The maintainer may tag it."""
    assert faults(WHOLE, today=TODAY) == faults(WHOLE, today=TODAY, tag="v1.1.0") == []


def test_release_with_a_fault_is_named_with_what_to_do() -> None:
    """Each fault stops the release with a sentence."""
    cases: list[tuple[dict[str, Any], str | None, str]] = [
        ({"version": "1.1"}, None, "1.1 is no version"),
        (
            {
                "version": "1.2.0",
                "databases": {"1.0.0": "0029", "1.2.0": "0031"},
                "demo": ("1.2.0",),
                "chart": ("1.2.0",),
            },
            None,
            "must be that of 1.2.0",
        ),
        ({"demo": ("1.1.0", "1.0.0")}, None, "names the versions 1.1.0, 1.0.0: write 1.1.0 in demo/"),
        ({"chart": ("1.0.0", "1.1.0")}, None, "names the versions 1.0.0, 1.1.0: write 1.1.0 in deploy/"),
        ({"sections": (Section("1.1.0", None, "- New."),), "tags": ()}, None, "write `## 1.1.0 (2026-12-01)`"),
        ({"sections": (Section("1.1.0", date(2026, 12, 2), "- New."),), "tags": ()}, None, "date in the future"),
        ({"sections": (Section("1.1.0", TODAY, ""),), "tags": ()}, None, "says nothing about 1.1.0"),
        ({"databases": {"1.0.0": "0029"}}, None, "is missing: run `make release-database`"),
        ({"databases": {"1.0.0": "0029", "1.1.0": "0030"}}, None, "is at revision 0030, not 0031"),
        ({"oldest": "0030"}, None, "processes of 1.0.0 (revision 0029) could not run"),
        ({"tags": ("v0.9.0",)}, None, "no section for the tag v0.9.0"),
        ({}, "1.1.0", "tag it v1.1.0"),
        ({}, "v1.0.0", "tag it v1.1.0"),
    ]
    for changes, tag, words in cases:
        (fault,) = faults(replace(WHOLE, **changes), today=TODAY, tag=tag)
        assert words in fault, (changes, tag, words)


@pytest.mark.parametrize("heading", ["## 1.0.0", "## 1.0.0 (soon)", "## 1.0.0 (2026-13-01)", "## News"])
def test_headings_of_the_changelog_have_a_version_and_a_day(heading: str) -> None:
    """A script can read them."""
    with pytest.raises(ValueError, match=r"heading|month|time data|day"):
        sections_of(f"# Changelog\n\n## 1.1.0 (unreleased)\n\n- New.\n\n{heading}\n\n- First.\n")


def test_changelog_has_a_section_for_each_version_newest_first() -> None:
    """Only the first may be unreleased; each released one has its database, on which later versions are tested."""
    release = present()
    versions = [section.version for section in release.sections]
    assert versions[0] == __version__
    assert versions == sorted(versions, key=ordered, reverse=True)
    days = [section.day for section in release.sections[1:]]
    assert None not in days
    assert {section.version for section in release.sections if section.day} <= set(release.databases)
    assert set(release.databases) <= set(versions)


def test_previous_releases_processes_may_run_on_the_present_tables() -> None:
    """The promise of a rolling upgrade: what `migrate` stores as the oldest revision is that of the last release."""
    release = present()
    assert [fault for fault in faults(release, today=TODAY) if "OLDEST" in fault] == []


def test_demo_and_chart_are_of_the_present_version() -> None:
    """`pip install 'imq[demo]'` gets the demo of the IMQ that it installs, and `helm install` its image."""
    assert present().demo == present().chart == (__version__, __version__)


def test_release_check_prints_the_faults_and_fails(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`make release-check` ends with 1 unless the tag may be pushed."""
    monkeypatch.setattr(
        checked,
        "present",
        lambda: replace(WHOLE, version="1.2.0", databases={"1.2.0": "0031"}, demo=("1.2.0",), chart=("1.2.0",)),
    )
    assert main(["--tag", "v1.1.0"]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 2
    assert printed[1].startswith("- the tag is v1.1.0")
    changelog = "## 1.1.0 (2026-01-01)\n\n- A.\n\n## 1.0.0 (2025-01-01)\n\n- B.\n"
    monkeypatch.setattr(checked, "present", lambda: replace(WHOLE, sections=sections_of(changelog)))
    assert main([]) == 0
    assert "can be released as v" in capsys.readouterr().out


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a release that a maintainer signed, with their key beside it."""
    folder, key = tmp_path / "release", tmp_path / "release.pem"
    folder.mkdir()
    (folder / "imq-0.1.0.tar.gz").write_bytes(b"an archive")
    (folder / "imq-0.1.0-py3-none-any.whl").write_bytes(b"a package")
    key.write_bytes(
        Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )
    release_files.sign(folder, key)
    return folder


def test_release_is_signed_as_a_second_implementation_reads_it(folder: Path) -> None:
    """`cryptography` alone verifies the envelope; its statement names each file by the checksum of its content."""
    envelope = json.loads((folder / release_files.ENVELOPE).read_text())
    (public,) = json.loads((folder / release_files.KEYS).read_text())["keys"].values()
    said = verified_by_hand(envelope, public["keyval"]["public"])
    assert said["predicateType"] == release_files.RELEASE
    assert said["predicate"] == {"purl": f"pkg:pypi/imq@{__version__}"}
    contents = {"imq-0.1.0-py3-none-any.whl": b"a package", "imq-0.1.0.tar.gz": b"an archive"}
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    assert {each["name"]: each["digest"] for each in said["subject"]} == {
        name: {"sha256": digest} for name, digest in digests.items()
    }
    sums = "".join(f"{digest}  {name}\n" for name, digest in digests.items())
    assert (folder / release_files.SUMS).read_text() == sums


@pytest.mark.parametrize(
    "changed", ["content", "content and checksums", "checksums", "lacking", "foreign", "signature", "key", "nothing"]
)
def test_release_whose_files_are_not_the_signed_ones_is_refused(folder: Path, changed: str, tmp_path: Path) -> None:
    """A changed, lacking or further file is named; a statement by another key proves nothing."""
    archive, sums, envelope = (
        folder / name for name in ("imq-0.1.0.tar.gz", release_files.SUMS, release_files.ENVELOPE)
    )
    trusted = tmp_path / "release-keys.json"
    shutil.copy(folder / release_files.KEYS, trusted)
    match changed:
        case "content":
            archive.write_bytes(b"another archive")
        case "content and checksums":
            archive.write_bytes(b"another archive")
            signed, other = (hashlib.sha256(each).hexdigest() for each in (b"an archive", b"another archive"))
            sums.write_text(sums.read_text().replace(signed, other))
        case "checksums":
            sums.write_text(sums.read_text().replace("a", "b"))
        case "lacking":
            archive.unlink()
        case "foreign":
            (folder / "imq-0.1.0-py3-none-manylinux.whl").write_bytes(b"a package")
        case "signature":
            content = json.loads(envelope.read_text())
            content["signatures"][0]["sig"] = base64.b64encode(bytes(64)).decode()
            envelope.write_text(json.dumps(content))
        case "key":
            release_files.sign(folder, None)
    found = release_files.faults(folder, trusted)
    words = {"nothing": None, "signature": "its signature does not fit", "key": "no known key has the id"}
    expected = words.get(changed, "is not the file that was signed")
    assert (found == []) if expected is None else all(expected in fault for fault in found) and found
    assert release_files.main(["verify", str(folder), "--keys", str(trusted)]) == (changed != "nothing")
