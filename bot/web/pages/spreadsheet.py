"""Write CSV (RFC 4180) that no spreadsheet reads as a formula: a text that begins like one gets an apostrophe.

A spreadsheet in a country with a decimal comma takes the semicolon as separator (OWASP, "CSV Injection"). So what
follows a semicolon counts as a beginning, too, also behind spaces and quotes.
"""

import csv
import re
from collections.abc import Iterable, Sequence
from io import StringIO

from aiohttp import web

_FORMULA = re.compile(r"""(^|;[\s"']*)(?=[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20])""")
"""The last four are the wide forms, which some spreadsheets read as the others."""

Cell = str | float | None


def csv_text(header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """Return the rows as CSV; None is an empty cell."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(header)
    writer.writerows([[_safe(cell) for cell in row] for row in rows])
    return text.getvalue()


def csv_response(name: str, header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> web.Response:
    """Return a file that a browser stores under this name."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "X-Content-Type-Options": "nosniff"}
    return web.Response(text=csv_text(header, rows), content_type="text/csv", charset="utf-8", headers=headers)


def _safe(cell: Cell) -> Cell:
    return _FORMULA.sub(r"\1'", cell) if isinstance(cell, str) else cell
