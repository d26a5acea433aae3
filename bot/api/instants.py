"""Parse instants from callers: ISO 8601 with an offset from UTC, within the years that Python knows."""

import re
from datetime import UTC, datetime
from typing import Annotated

from pydantic import AwareDatetime, ValidationError, ValidatorFunctionWrapHandler, WrapValidator
from pydantic_core import PydanticCustomError

IMPOSSIBLE = "impossible_instant"
"""The type of pydantic's error for a number of seconds, or an instant that does not exist."""

_SHAPE = re.compile(r"[+-]?\d+-\d+-\d+[Tt ].*(?:[Zz]|[+-]\d\d:?\d\d)", re.ASCII | re.DOTALL)


def _in_utc(value: object, handler: ValidatorFunctionWrapHandler) -> datetime:
    """Convert the instant to UTC; it must lie within the years 1 to 9999 there, too."""
    if isinstance(value, int | float) or (isinstance(value, str) and _is_number(value)):
        raise _no_such_instant()
    try:
        instant: datetime = handler(value)
        return instant.astimezone(UTC)
    except OverflowError:
        raise _no_such_instant() from None
    except ValidationError:
        if isinstance(value, str) and _SHAPE.fullmatch(value.strip()):
            raise _no_such_instant() from None
        raise


def _is_number(text: str) -> bool:
    """Whether pydantic would parse the text as seconds since 1970."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _no_such_instant() -> PydanticCustomError:
    return PydanticCustomError(IMPOSSIBLE, "there is no such instant; give one such as 2026-12-24T08:00:00+01:00")


Instant = Annotated[AwareDatetime, WrapValidator(_in_utc)]
"""An instant with its offset from UTC, as text."""
