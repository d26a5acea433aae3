"""Parse the body and the query of a call into models, and name every fault; the bases of all models of the API."""

import base64
import json
import re
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Protocol, TypeVar

from aiohttp import web
from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import PydanticCustomError

from bot.api.api_errors import ApiError
from bot.http.form import Refused, read_body
from queue_engine.core.read_model import adapter

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


MAX_BODY = 64 * 1024
"""Bytes of a body; no call needs as many."""

_MAX_PROBLEMS, _MAX_CHARACTERS = 5, 100
"""How many faults an answer names, and how many characters of each name: a body may have thousands of them."""

_BODY: web.RequestKey[bytes] = web.RequestKey("body", bytes)


class Payload(BaseModel):
    """Base of all models of input. Unknown fields are refused, because the caller expects them to do something."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class AnswerModel(BaseModel):
    """Base of the models of answers, which read the engine's attributes. Each is built at its first use."""

    model_config = ConfigDict(defer_build=True, from_attributes=True, ser_json_timedelta="float")


class EmptyBody(Payload):
    """The model of calls without parameters."""


P = TypeVar("P", bound=Payload)


def json_data(answer: object) -> Any:
    """Return an answer, or a read model of the engine, as JSON data."""
    model: Any = type(answer)
    return adapter(model).dump_python(answer, mode="json")


async def receive(request: web.Request) -> bytes:
    """Read the body once, for `payload`. Raises ApiError: 400, 408, 413, 415."""
    try:
        request[_BODY] = body = await read_body(request, "body", MAX_BODY)
    except Refused as refused:
        raise ApiError(refused.status, refused.sentence) from None
    return body


def payload(request: web.Request, model: type[P]) -> P:
    """Parse the body of a writing call; an empty one is an object without fields. Raises ApiError: 400, 415, 422."""
    body = request[_BODY]
    if not body:
        return _validated(model, {}, "body")
    if request.content_type != "application/json":
        raise ApiError(415, "the content type must be application/json")
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise ApiError(400, "the body is not JSON") from None
    if not isinstance(value, dict):
        raise ApiError(400, "the body is JSON, but not an object")
    return _validated(model, value, "body")


def query(request: web.Request, model: type[P]) -> P:
    """Parse the query of a call. Raises ApiError 400."""
    twice = [name for name, times in Counter(name for name, _ in request.query.items()).items() if times > 1]
    if twice:
        raise ApiError(400, f"the query is not understood: {twice[0][:_MAX_CHARACTERS]}: given more than once")
    return _validated(model, dict(request.query), "query")


def _validated(model: type[P], value: dict[str, object], part: str) -> P:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        errors = error.errors()
        places = [".".join(map(str, each["loc"]))[:_MAX_CHARACTERS] or part for each in errors[:_MAX_PROBLEMS]]
        problems = [f"{place}: {each['msg']}" for place, each in zip(places, errors, strict=False)]
        if (more := len(errors) - _MAX_PROBLEMS) > 0:
            problems.append(f"and {more} more")
        impossible = {each["type"] for each in errors} == {IMPOSSIBLE}
        raise ApiError(422 if impossible else 400, f"the {part} is not understood: {'; '.join(problems)}") from None


class ListingItem(Protocol):
    @property
    def place(self) -> tuple[datetime, str | int]:
        """Its position in the list: an instant, and its id."""
        ...


Item = TypeVar("Item", bound=ListingItem)


class Listing(Payload):
    """Parameters of a list that has pages; `cursor` is the `next` of the page before."""

    limit: int = Field(50, ge=1, le=200)
    cursor: str | None = Field(None, max_length=200)

    @property
    def after(self) -> tuple[datetime, str] | None:
        """The place of the last item of the page before; None on the first page. Raises ApiError 404."""
        return None if self.cursor is None else parse_cursor(self.cursor)

    @property
    def reads(self) -> int:
        """How many items to read: one more than the page has shows whether another page follows."""
        return self.limit + 1

    def page(self, found: Sequence[Item]) -> tuple[Sequence[Item], str | None]:
        """Return the items of the page, of what was read, and the cursor of the next page; None on the last one."""
        shown = found[: self.limit]
        return shown, cursor_after(*shown[-1].place) if len(found) > self.limit else None


def cursor_after(at: datetime, item_id: str | int) -> str:
    return base64.urlsafe_b64encode(f"{at.isoformat()} {item_id}".encode()).decode()


def parse_cursor(cursor: str) -> tuple[datetime, str]:
    """Return the instant and the id of the item before a page. Raises ApiError 404 for a made-up cursor."""
    try:
        text, item_id = base64.b64decode(cursor, altchars=b"-_", validate=True).decode().split(" ")
        at = datetime.fromisoformat(text)
        if at.tzinfo is None or not item_id.isprintable():
            raise ValueError(cursor)
        return at.astimezone(UTC), item_id
    except (ValueError, OverflowError):
        raise no_such_page() from None


def no_such_page() -> ApiError:
    """Return the refusal of a made-up cursor."""
    return ApiError(404, "no such page: use the `next` of another page as cursor")
