"""JUnit reports in archives: the tests that failed; hostile archives and reports cost little and name nothing."""

import struct
import zipfile
from io import BytesIO

import pytest

from bot.gateway import failing_reports
from bot.gateway.failing_reports import MOST_BYTES, MOST_TESTS, failed_tests

REPORT = """<?xml version="1.0"?><testsuites><testsuite name="s">
<testcase classname="pay.test_card" name="test_declined"><failure message="no"/></testcase>
<testcase classname="pay.test_card" name="test_paid"/>
<testcase name="adds up"><error/></testcase>
<testcase classname="pay.test_card" name="test_declined"><failure/></testcase>
</testsuite></testsuites>"""
FAILED = ("pay.test_card::test_declined", "adds up")


def archive(*files: tuple[str, str | bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip archive of these files."""
    made = BytesIO()
    with zipfile.ZipFile(made, "w", method) as opened:
        for name, content in files:
            opened.writestr(name, content)
    return made.getvalue()


def cases(*names: str) -> str:
    """A report in which these tests failed."""
    return "<s>" + "".join(f'<testcase name="{name}"><failure/></testcase>' for name in names) + "</s>"


def test_failed_tests_are_named_once_and_passed_ones_are_not() -> None:
    assert failed_tests(archive(("reports/junit.xml", REPORT), ("log.txt", "x"))) == FAILED


@pytest.mark.parametrize(
    ("report", "name"),
    [
        ("\n<?xml version='1.0'?>" + cases("a"), "a"),
        ("<s><testcase name='a'><failure message='\x1b[31mred'/></testcase></s>", "a"),
        ("<?xml version='1.0' encoding='UTF-8'?><s><p v='\xe9'/>".encode("latin-1") + cases("a")[3:].encode(), "a"),
        (b"<?xml version='1.0' encoding='ISO-8859-1'?>" + cases("caf\xe9").encode("latin-1"), "caf\xe9"),
        (("<?xml version='1.0' encoding='UTF-16'?>" + cases("\u0121")).encode("utf-16"), "\u0121"),
        ("\ufeff" + cases("\u0121"), "\u0121"),
        (cases("pays").replace("name=", "classname='pays' name="), "pays"),
    ],
    ids=["blank_line", "colours", "another_encoding", "latin_1", "utf_16", "byte_order_mark", "group_is_name"],
)
def test_reports_that_are_slightly_wrong_name_their_tests(report: str | bytes, name: str) -> None:
    """Reporters copy what a program printed; Jest's names each test twice."""
    assert failed_tests(archive(("junit.xml", report))) == (name,)


def test_names_are_one_printable_line_of_bounded_length() -> None:
    """Names are shown to people, and stored."""
    [name] = failed_tests(archive(("a.xml", cases("a&#10;b" + "c" * 999))))
    assert name.startswith("a bc")
    assert len(name) == 300


@pytest.mark.parametrize(
    "report",
    [
        '<!DOCTYPE s [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>' + cases("&b;"),
        '<!DOCTYPE s SYSTEM "file:///etc/passwd">' + cases("a"),
        '<!DOCTYPE s [<!ENTITY x SYSTEM "file:///etc/passwd">]>' + cases("&x;"),
        "<s>" * 100 + cases("a"),
        "no xml",
        "",
        '<?xml version="1.0" encoding="x-none"?>' + cases("a"),
        '<?xml version="1.0" encoding="rot13"?>' + cases("a"),
        '<?xml version="1.0" encoding="gbk"?>' + cases("a"),
    ],
    ids=[
        "billion_laughs",
        "external_type",
        "external_entity",
        "too_deep",
        "no_xml",
        "empty",
        "no_encoding",
        "encoding_of_no_text",
        "encoding_of_many_bytes",
    ],
)
def test_hostile_report_names_nothing_and_hides_no_other(report: str) -> None:
    """No entity is read, whatever it stands for."""
    assert failed_tests(archive(("a.xml", report), ("b.xml", cases("good")))) == ("good",)


def lying(sizes: bytes) -> bytes:
    """An archive whose directory says that a large file is small."""
    made = archive(("a.xml", cases(*["x" * 200] * 50_000)))
    at = made.rindex(b"PK\x01\x02") + 24
    return made[:at] + sizes + made[at + 4 :]


@pytest.mark.parametrize(
    "bytes_",
    [
        b"",
        b"PK",
        archive(("a.xml", cases("a")), ("b.bin", bytes(MOST_BYTES)), method=zipfile.ZIP_STORED),
        archive(("a.xml", REPORT))[:-30],
        archive(("a.xml", cases("a") + " " * 7_000_000)),
        archive(("a.xml", cases("a") + " " * 9_000_000)),
        archive(("a.xml", REPORT), method=zipfile.ZIP_LZMA),
        lying(struct.pack("<L", 100)),
    ],
    ids=["empty", "header", "too_large", "cut", "ratio", "large", "method", "lying"],
)
def test_hostile_archive_names_nothing(bytes_: bytes) -> None:
    """It neither fails nor fills the memory."""
    assert failed_tests(bytes_) == ()


def test_count_of_files_and_of_tests_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive of many small reports ends, and so does one report of many tests."""
    assert len(failed_tests(archive(("a.xml", cases(*(f"t{number}" for number in range(500))))))) == MOST_TESTS
    monkeypatch.setattr(failing_reports, "_MOST_FILES", 2)
    assert failed_tests(archive(*((f"{each}.xml", cases(f"t{each}")) for each in range(4)))) == ("t0", "t1")
    monkeypatch.setattr(failing_reports, "_MOST_UNPACKED", 10)
    assert failed_tests(archive(("a.xml", cases("a")))) == ()


def test_directory_of_very_many_files_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry takes 46 bytes: a hundred thousand fit into an archive, and would stop the process for seconds."""
    whole = archive(("junit.xml", REPORT), *((f"{number}", "") for number in range(5000)))
    opened: list[object] = []
    monkeypatch.setattr(zipfile, "ZipFile", opened.append)
    assert (failed_tests(whole), opened) == ((), [])
