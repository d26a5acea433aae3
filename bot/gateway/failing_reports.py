"""Read which tests failed from JUnit reports in archives that a workflow uploaded. Pure; archives are hostile.

Anyone who may run CI chooses the bytes. So all sizes, counts and ratios are bounded before and while bytes are
unpacked, nothing is written anywhere, and a report with a document type, which every entity needs, is left out.
JUnit has no standard; `testcase` with `failure` or `error` within is common to those of pytest, Surefire, Jest and Go
(testmoapp/junitxml; mikepenz/action-junit-report).
"""

import codecs
import struct
import zipfile
import zlib
from collections.abc import Iterator
from io import BytesIO
from typing import Any
from xml.parsers import expat
from xml.parsers.expat import errors

MOST_BYTES = 5 * 1024 * 1024
"""Of an archive, as it is sent."""
_MOST_OF_REPORT = 8 * 1024 * 1024
_MOST_UNPACKED = 32 * 1024 * 1024
_MOST_FILES = 500
_ENTRY, _MOST_ENTRIES = b"PK\x01\x02", 5000
"""What begins each entry of an archive's directory, which the standard library reads whole; and how many of them."""
_MOST_RATIO = 200
"""Unpacked bytes for each packed one; reports repeat much, and have about 20."""
_MOST_DEPTH = 64
MOST_TESTS = 50
_LONGEST = 300
_CHUNK = 64 * 1024
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 0x1
_FAULTS = (
    zipfile.BadZipFile,
    NotImplementedError,
    RuntimeError,
    OSError,
    ValueError,
    EOFError,
    struct.error,
    zlib.error,
)
"""What the standard library raises for archives that it cannot read."""


_BLANKED = bytes(each if each >= 0x20 or each in b"\t\n\r" else 0x20 for each in range(256))
"""Control characters, which XML forbids, as blanks: reporters copy the colours of a terminal into messages."""
_INVALID = errors.codes[errors.XML_ERROR_INVALID_TOKEN]


class _Stop(Exception):
    """The rest of a report does not count."""


def failed_tests(archive: bytes) -> tuple[str, ...]:
    """Return the tests that failed, as the reports in an archive name them; none where it is no archive of reports."""
    found: dict[str, None] = {}
    if len(archive) > MOST_BYTES or archive.count(_ENTRY) > _MOST_ENTRIES:
        return ()
    try:
        for report in _reports(archive):
            found |= dict.fromkeys(_failed(report))
            if len(found) >= MOST_TESTS:
                break
    except _FAULTS:
        pass
    return tuple(found)[:MOST_TESTS]


def _reports(archive: bytes) -> Iterator[bytes]:
    """Yield the XML files of an archive, each whole, within all limits."""
    left = _MOST_UNPACKED
    with zipfile.ZipFile(BytesIO(archive)) as opened:
        for info in opened.infolist()[:_MOST_FILES]:
            if not info.filename.lower().endswith(".xml") or info.flag_bits & _ENCRYPTED:
                continue
            if info.compress_type not in _METHODS or info.file_size > _MOST_RATIO * max(info.compress_size, 1):
                continue
            most = min(_MOST_OF_REPORT, left)
            if info.file_size > most:
                continue
            with opened.open(info) as file:
                # The size in the header is only what the archive says.
                report = file.read(most + 1)
            left -= len(report)
            if left < 0:
                return
            yield report


def _failed(report: bytes) -> tuple[str, ...]:
    """Return the tests of one report that failed; those before a fault of the report count.

    One whose bytes contradict its encoding is read as Latin-1, in which each byte is a character.
    """
    if not report.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        report = report.lstrip().translate(_BLANKED)
    try:
        return _tests_of(report, None)
    except UnicodeError:
        return _tests_of(report, "iso-8859-1")


def _tests_of(report: bytes, encoding: str | None) -> tuple[str, ...]:
    """Return the same of a report in this encoding; None: as it says. Raises UnicodeError if its bytes are others."""
    cases: list[str] = []
    found: list[str] = []
    depth = 0

    def begin(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > _MOST_DEPTH or len(found) >= MOST_TESTS:
            raise _Stop
        if name == "testcase":
            cases.append(test_name(attributes.get("classname", ""), attributes.get("name", "")))
        elif name in ("failure", "error") and cases and cases[-1]:
            found.append(cases[-1])

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1
        if name == "testcase" and cases:
            cases.pop()

    def refuse(*_: Any) -> None:
        raise _Stop

    parser = expat.ParserCreate(encoding)
    parser.StartElementHandler, parser.EndElementHandler = begin, end
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    try:
        for start in range(0, len(report), _CHUNK):
            parser.Parse(report[start : start + _CHUNK], False)
        parser.Parse(b"", True)
    except expat.ExpatError as fault:
        if fault.code == _INVALID and encoding is None:
            raise UnicodeError from fault
    except (_Stop, ValueError, LookupError):
        # Python looks up the name of an encoding, which is the report's own word.
        pass
    return tuple(dict.fromkeys(found))


def test_name(group: str, name: str) -> str:
    """Return the name of a test in one printable line."""
    whole = f"{group}::{name}" if group and name and group != name else name or group
    return "".join(each if each.isprintable() else " " for each in whole)[:_LONGEST].strip()
