"""The file as pydantic reads it: models made of the declared keys, and the JSON Schema by which editors check it."""

from collections.abc import Collection
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field, create_model

from queue_engine.config.keys import Key, Section, declared
from queue_engine.config.kinds import MOST, ConfigModel, Some, Wildcards
from queue_engine.config.model import Policy


def _model(of: type[Any], without: Collection[str] = ()) -> type[ConfigModel]:
    """Make the model of a section, or of the file, in which no key has a default."""
    forms: dict[str, Any] = {
        name: (_form(found) | None, Field(None, description=found.text))
        for name, found in declared(of)
        if name not in without
    }
    return create_model(of.__name__, __base__=ConfigModel, __doc__=of.__doc__, **forms)


@cache
def _form(found: Key | Section) -> Any:
    if isinstance(found, Key):
        return found.kind.form
    model = _model(found.of)
    if found.short is None:
        return model
    return Annotated[model, BeforeValidator(found.short, json_schema_input_type=found.written | model)]


if TYPE_CHECKING:

    class _Rules(ConfigModel):
        mode: str | None = None

    _BranchRules = _Rules
else:
    _Rules, _BranchRules = _model(Policy), _model(Policy, ("mode",))


class BranchRules(_BranchRules):
    """Rules for the base branches that match; other keys are as at the top level."""

    match: Some[Wildcards] = Field(
        description="Base branches, or wildcards: `main`, `release/*`, `**`. The first rule that matches holds."
    )


class Config(_Rules):
    """Rules of IMQ's merge queue: `.github/imq.yml`."""

    branches: list[BranchRules] | None = Field(
        None, max_length=MOST, description="Rules for some base branches, which replace those at the top level."
    )


def json_schema() -> dict[str, Any]:
    """Return the schema, in draft 2020-12."""
    schema = _plain(Config.model_json_schema(by_alias=True))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "IMQ merge queue", **schema}


def _plain(node: Any, *, names: bool = False) -> Any:
    """Remove pydantic's additions: titles of classes, and null as a default.

    `names`: the keys of this node are the configuration's own, not words of JSON Schema.
    """
    if isinstance(node, list):
        return [_plain(each) for each in node]
    if not isinstance(node, dict):
        return node
    if names:
        return {name: _plain(each) for name, each in node.items()}
    return {
        word: _plain(value, names=word in ("properties", "$defs"))
        for word, value in node.items()
        if word != "title" and not (word == "default" and value is None)
    }
