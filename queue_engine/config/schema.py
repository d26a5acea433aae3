"""The JSON Schema of the configuration, by which editors complete and check it."""

from typing import Any

from queue_engine.config.model import Config


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
