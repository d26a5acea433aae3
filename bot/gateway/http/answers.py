"""Parse GitHub's JSON into models. Raises Unavailable for what GitHub does not document."""

from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from queue_engine.domain.errors import Unavailable

M = TypeVar("M", bound=BaseModel)


def parse_answer(model: type[M], data: Any) -> M:
    """Parse `data` as `model`. Raises Unavailable when it does not match GitHub's documentation."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise Unavailable(_mismatch_message(model, error)) from error


def parse_list(model: type[M], data: Any, key: str | None = None) -> list[M]:
    """Parse `data`, or the list under `key` in it, as a list of `model`. Raises Unavailable like `parse_answer`."""
    items = data.get(key) if key is not None and isinstance(data, dict) else data
    try:
        return _list_of(model).validate_python(items)
    except ValidationError as error:
        raise Unavailable(_mismatch_message(model, error)) from error


@cache
def _list_of(model: type[M]) -> TypeAdapter[list[M]]:
    """Build the parser of a list of `model` once, which takes longer than most answers."""
    return TypeAdapter(list[model])  # type: ignore[valid-type]


def _mismatch_message(model: type[BaseModel], error: ValidationError) -> str:
    # Only places and kinds: the values may hold secrets.
    places = ", ".join(".".join(map(str, problem["loc"])) or "answer" for problem in error.errors()[:5])
    return f"the answer is not GitHub's: {model.__name__} lacks or mistakes {places}"
