"""CSV by RFC 4180, in which no cell is a formula."""

import csv
from io import StringIO

import pytest

from bot.web.pages.statistics import csv_text


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\uff1d1"])
def test_no_cell_is_a_formula(cell: str) -> None:
    """A spreadsheet would run what an author wrote as a title."""
    assert next(csv.reader(StringIO(csv_text([cell], []), newline=""))) == [cell]
    _, row = csv.reader(StringIO(csv_text(["title"], [[cell]]), newline=""))
    assert row == [f"'{cell}"]


@pytest.mark.parametrize(("cell", "safe"), [("x;=1+1", "x;'=1+1"), ('a; "@b"', 'a; "\'@b"'), ("a-b=c", "a-b=c")])
def test_no_part_of_a_cell_is_a_formula_where_semicolons_separate(cell: str, safe: str) -> None:
    """A spreadsheet with a decimal comma cuts a title there, whatever quotes stand around it."""
    _, row = csv.reader(StringIO(csv_text(["title"], [[cell]]), newline=""))
    assert row == [safe]


def test_cells_are_quoted_as_rfc_4180_says() -> None:
    """Commas, quotes and line ends are within quotes; numbers and empty cells stay as they are."""
    assert csv_text(["a", "b"], [['x,"y"', -1.5], ["two\nlines", None]]) == 'a,b\r\n"x,""y""",-1.5\r\n"two\nlines",\r\n'
