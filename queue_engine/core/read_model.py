"""Read models that programs get as they are: pydantic serialises the dataclasses themselves, without a copy of them."""

from typing import TYPE_CHECKING, Any

from pydantic import Field, computed_field

__all__ = ["INTERNAL", "serialized"]

if TYPE_CHECKING:
    from builtins import property as serialized
else:

    def serialized(value: Any) -> Any:
        """Make a property that programs get, too."""
        return computed_field(property(value))


INTERNAL: Any = Field(exclude=True)
"""Annotates a field that no program gets."""
