"""Parse instants from callers: ISO 8601 with an offset from UTC, and only existing ones."""

import re
from datetime import UTC, datetime
from typing import Annotated

from pydantic import AwareDatetime, ValidationError, ValidatorFunctionWrapHandler, WrapValidator
from pydantic_core import PydanticCustomError

IMPOSSIBLE = "impossible_instant"
"""The type of pydantic's error for what looks like an instant, or counts seconds, and is none that can be."""

_SHAPE = re.compile(r"[+-]?\d+-\d+-\d+[Tt ].*(?:[Zz]|[+-]\d\d:?\d\d)", re.ASCII | re.DOTALL)


def _possible(value: object, handler: ValidatorFunctionWrapHandler) -> datetime:
    """The instant in UTC: whatever is stored and compared later must exist there, too (year 1 to 9999)."""
    if isinstance(value, int | float) or (isinstance(value, str) and _is_number(value)):
        raise _impossible()
    try:
        instant: datetime = handler(value)
        return instant.astimezone(UTC)
    except OverflowError:
        raise _impossible() from None
    except ValidationError:
        if isinstance(value, str) and _SHAPE.fullmatch(value.strip()):
            raise _impossible() from None
        raise


def _is_number(text: str) -> bool:
    """Whether pydantic would take it for seconds since 1970."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _impossible() -> PydanticCustomError:
    return PydanticCustomError(IMPOSSIBLE, "there is no such instant; give one such as 2026-12-24T08:00:00+01:00")


Instant = Annotated[AwareDatetime, WrapValidator(_possible)]
"""An instant with its offset from UTC, as text."""
