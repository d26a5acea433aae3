"""Read models that programs get as they are: pydantic serialises the dataclasses themselves, without a copy of them."""

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, TypeAdapter, computed_field

__all__ = ["INTERNAL", "ReadModel", "adapter", "rounded", "serialized"]

if TYPE_CHECKING:
    from builtins import property as serialized
else:

    def serialized(value: Any) -> Any:
        """Make a property that programs get, too."""
        return computed_field(property(value))


INTERNAL: Any = Field(exclude=True)
"""Annotates a field that no program gets."""


def rounded(digits: int) -> Any:
    """Annotate a number that programs get with so many decimals: a sum of fractions has others (33.99999999999999)."""
    return PlainSerializer(lambda value: round(value, digits), return_type=float)


class ReadModel(BaseModel):
    """A model that pydantic builds at its first use: most processes need a part of them."""

    model_config = ConfigDict(defer_build=True)


adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)
"""Returns what reads, serialises and describes a type, built at its first use."""
