"""Write CSV (RFC 4180) that no spreadsheet reads as a formula: a text that begins like one gets an apostrophe.

A spreadsheet in a country with a decimal comma takes the semicolon as separator (OWASP, "CSV Injection"). So what
follows a semicolon counts as a beginning, too, also behind spaces and quotes.
"""

import csv
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from io import StringIO

import structlog
from aiohttp import web

_log = structlog.get_logger("imq.pages")

_FORMULA = re.compile(r"""(^|;[\s"']*)(?=[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20])""")
"""The last four are the wide forms, which some spreadsheets read as the others."""

Cell = str | float | None


def csv_text(header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """Return the rows as CSV; None is an empty cell."""
    return _written([header]) + _lines(rows)


def csv_response(name: str, header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> web.Response:
    """Return a file that a browser stores under this name."""
    text = csv_text(header, rows)
    return web.Response(text=text, content_type="text/csv", charset="utf-8", headers=_headers(name))


async def stream_csv(
    request: web.Request, name: str, header: Sequence[str], parts: AsyncIterator[Sequence[Sequence[Cell]]]
) -> web.StreamResponse:
    """Send a long file part by part: no other request waits for it, and memory holds one part."""
    first = await anext(parts, ())  # An error before the file begins has a page.
    response = web.StreamResponse(headers={**_headers(name), "Content-Type": "text/csv; charset=utf-8"})
    await response.prepare(request)
    if request.method != "HEAD":
        try:
            await response.write(csv_text(header, first).encode())
            async for part in parts:
                await response.write(_lines(part).encode())
        except Exception as error:
            if not isinstance(error, ConnectionError):
                _log.exception("page_failed", method=request.method, path=request.path)
            # Without its end, so that the browser does not take the file for whole.
            if request.transport is not None:
                request.transport.abort()
            return response
    await response.write_eof()
    return response


def _headers(name: str) -> dict[str, str]:
    return {"Content-Disposition": f'attachment; filename="{name}"', "X-Content-Type-Options": "nosniff"}


def _lines(rows: Iterable[Sequence[Cell]]) -> str:
    return _written([_safe(cell) for cell in row] for row in rows)


def _written(rows: Iterable[Sequence[Cell]]) -> str:
    text = StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    return text.getvalue()


def _safe(cell: Cell) -> Cell:
    return _FORMULA.sub(r"\1'", cell) if isinstance(cell, str) else cell
