"""What docs/configuration.md says of each key, taken from the model by which configurations are read."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from queue_engine.config.file import as_keys, json_schema
from queue_engine.config.merge_commit import PLACEHOLDERS
from queue_engine.config.model import KEYS, Policy

_SCHEMA = json_schema()


def keys() -> str:
    """Every key with what it may be, its default and its meaning."""
    rows = ["| key | value | default | meaning |", "| --- | --- | --- | --- |"]
    rows += (f"| {' | '.join(cells)} |" for cells in _rows(_SCHEMA["properties"], (), as_keys(Policy())))
    return "\n".join(rows) + "\n"


def shared_keys() -> str:
    """What an organisation's shared configuration may do with each key, and what it could do without the limit."""
    rows = ["| key | may only be | because else |", "| --- | --- | --- |"]
    for key in KEYS:
        may, risk = (word if word != "nothing" else "" for word in key.shared[1:])
        rows.append(f"| `{key.name}` | {may or 'not set at all'} | {risk} |")
    return "\n".join(rows) + "\n"


def placeholders() -> str:
    """What a template of a commit may hold."""
    rows = ["| placeholder | what it becomes | in |", "| --- | --- | --- |"]
    for name, meaning in PLACEHOLDERS.items():
        where = "body" if name in ("body", "body_text", "co_authors") else "title, body"
        rows.append(f"| `{{{name}}}` | {meaning} | {where} |")
    return "\n".join(rows) + "\n"


def schema() -> str:
    """The file with the schema."""
    return json.dumps(_SCHEMA, indent=2, ensure_ascii=False) + "\n"


def _rows(properties: Mapping[str, Any], path: tuple[str, ...], defaults: Any) -> Iterator[tuple[str, ...]]:
    for name, node in properties.items():
        if path == ("branches",) and name != "match":
            continue
        shape = _resolved(node)
        inner = _resolved(shape.get("items") or shape.get("additionalProperties") or {})
        default = defaults.get(name) if isinstance(defaults, dict) else None
        if "properties" in shape:
            yield from _rows(shape["properties"], (*path, name), default)
            continue
        yield _key(path, name), _value(node), _default(path, name, default, node), node["description"]
        if "properties" in inner:
            yield from _rows(inner["properties"], (*path, name), None)


def _key(path: tuple[str, ...], name: str) -> str:
    """Keys of the sections in a list, or by label, are marked as such."""
    marks = {"windows": "windows[]", "required": "required[]", "branches": "branches[]", "labels": "labels.LABEL"}
    within = [marks.get(part, part) if part != "labels" or "priority" in path else part for part in path]
    return f"`{'.'.join((*within, name))}`"


def _default(path: tuple[str, ...], name: str, value: Any, node: Mapping[str, Any]) -> str:
    if "default" in node and node["default"] not in (None, ""):
        return f"`{json.dumps(node['default']).strip(chr(34))}`"
    if (*path, name) in (("merge", "title"), ("merge", "body")):
        return "GitHub's"
    if value in (None, [], {}):
        return "none" if value is not None else ""
    shown = ", ".join(value) if isinstance(value, list) else json.dumps(value).strip('"')
    return f"`{shown}`"


def _value(node: Mapping[str, Any]) -> str:
    """What may stand there, in a few words."""
    shapes = [_expanded(each) for each in _alternatives(node)]
    if any(shape.get("type") == "array" for shape in shapes):
        one = [_one(shape) for shape in shapes if shape.get("type") != "array"]
        return f"{' or '.join(dict.fromkeys(one))}, or a list" if one else "list of sections"
    return ", ".join(dict.fromkeys(_one(shape) for shape in shapes))


def _one(shape: Mapping[str, Any]) -> str:
    if "const" in shape:
        return f"`{shape['const']}`"
    if "enum" in shape:
        return ", ".join(f"`{each}`" for each in shape["enum"])
    if shape["type"] == "integer":
        return f"{shape['minimum']} to {shape['maximum']}" if "maximum" in shape else "number"
    if shape["type"] == "object":
        return "section" if "properties" in shape else "by label or name"
    return {"boolean": "`true`, `false`", "string": "duration" if "examples" in shape else "text"}[shape["type"]]


def _alternatives(node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if "anyOf" not in node:
        return [node]
    return [inner for each in node["anyOf"] if each.get("type") != "null" for inner in _alternatives(each)]


def _resolved(node: Any) -> Mapping[str, Any]:
    """The list among the alternatives, or the section or mapping, if there is one; else the first of them."""
    shapes = [_expanded(each) for each in _alternatives(node)] if isinstance(node, dict) else [{}]
    ranks = ("array", "object")
    return min(shapes, key=lambda shape: ranks.index(shape["type"]) if shape.get("type") in ranks else len(ranks))


def _expanded(node: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = node.get("$ref")
    found: Mapping[str, Any] = _SCHEMA["$defs"][reference.rpartition("/")[2]] if reference else node
    return found
