"""Trims GitHub's OpenAPI descriptions, as Octokit publishes them on npm, to what the emulator serves.

Renew `octokit_schemas.b64` after a new route, a new event or a new release:

    npm pack @octokit/openapi @octokit/openapi-webhooks
    .venv/bin/python -m github_schemas.trim_octokit octokit-openapi-[0-9]*.tgz octokit-openapi-webhooks-*.tgz
"""

import base64
import json
import lzma
import sys
import tarfile
from collections.abc import Iterator
from typing import Any

from github_emulator.rest.endpoints import ROUTES
from github_schemas.octokit import PACKED, any_parameter
from over_http.conftest import EVENTS

_DESCRIPTION = "package/generated/api.github.com.json"
_UNASKED = ("installation", "installation_repositories", "installation_target")
"""Events that an App is sent without a subscription."""
_PLAIN = (
    *("$ref", "type", "format", "enum", "const", "required", "pattern", "minimum", "maximum"),
    *("minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties"),
)
_ONE = ("items", "additionalProperties", "not")
_SEVERAL = ("oneOf", "anyOf", "allOf")
_NAMED = ("properties", "patternProperties")


def trim(schema: Any) -> Any:
    """The assertions of a schema alone, with OpenAPI 3.0's `nullable` in the words of JSON Schema."""
    if not isinstance(schema, dict):
        return schema
    kept = {key: schema[key] for key in _PLAIN if key in schema}
    kept |= {key: trim(schema[key]) for key in _ONE if key in schema}
    kept |= {key: [trim(inner) for inner in schema[key]] for key in _SEVERAL if key in schema}
    kept |= {key: {name: trim(inner) for name, inner in schema[key].items()} for key in _NAMED if key in schema}
    return _nullable(kept) if schema.get("nullable") else kept


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    if isinstance(schema.get("type"), str) and not schema.keys() & {"$ref", *_SEVERAL}:
        enum = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
        return schema | {"type": [schema["type"], "null"]} | enum
    return {"anyOf": [schema, {"type": "null"}]}


def references(value: Any) -> Iterator[str]:
    """The names of the components that a trimmed schema refers to."""
    if isinstance(value, dict):
        if isinstance(target := value.get("$ref"), str):
            yield target.rpartition("/")[2]
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def with_components(roots: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    """The roots, and every component that they need."""
    needed: dict[str, Any] = {}
    missing = set(references(roots))
    while missing:
        name = missing.pop()
        needed[name] = trim(components[name])
        missing |= set(references(needed[name])) - needed.keys()
    return {"roots": roots, "components": {"schemas": dict(sorted(needed.items()))}}


def served_operations(document: dict[str, Any]) -> dict[str, Any]:
    """Each answer of each served operation, as "METHOD path status", and its page in the reference."""
    served = {any_parameter(route.template) for route in ROUTES}
    answers: dict[str, Any] = {}
    pages: dict[str, str] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            name = any_parameter(f"{method.upper()} {path}")
            if name in served:
                pages[name] = operation["externalDocs"]["url"]
                for status, response in operation["responses"].items():
                    answers[f"{name} {status}"] = _schema_of(document, response)
    return {**with_components(answers, document["components"]["schemas"]), "pages": pages}


def _schema_of(document: dict[str, Any], response: dict[str, Any]) -> Any:
    """The schema of an answer's JSON; None for an answer without content."""
    if "$ref" in response:
        response = document["components"]["responses"][response["$ref"].rpartition("/")[2]]
    content = response.get("content", {})
    return trim(content["application/json"]["schema"]) if "application/json" in content else None


def served_webhooks(document: dict[str, Any]) -> dict[str, Any]:
    """Each action of each event that the emulator sends, as "event" or "event.action"."""
    payloads: dict[str, Any] = {}
    components = document["components"]["schemas"]
    for webhook in document["webhooks"].values():
        event = webhook["post"]["operationId"].partition("/")[0].replace("-", "_")
        if event in (*EVENTS, *_UNASKED):
            schema = trim(webhook["post"]["requestBody"]["content"]["application/json"]["schema"])
            resolved = components[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
            # A requested review is that of a person or of a team.
            shape = resolved["oneOf"][0] if "oneOf" in resolved else resolved
            actions = shape.get("properties", {}).get("action", {}).get("enum", [])
            payloads[".".join((event, *actions))] = schema
    return with_components(payloads, components)


def read(package: str) -> dict[str, Any]:
    """The description of github.com in a package as npm packs it."""
    with tarfile.open(package) as archive:
        member = archive.extractfile(_DESCRIPTION)
        assert member is not None, f"{package} has no {_DESCRIPTION}"
        document: dict[str, Any] = json.load(member)
    return document


def main(rest: str, webhooks: str) -> None:
    documents = {"rest": read(rest), "webhooks": read(webhooks)}
    trimmed = {
        "versions": {name: document["info"]["version"] for name, document in documents.items()},
        "rest": served_operations(documents["rest"]),
        "webhooks": served_webhooks(documents["webhooks"]),
    }
    text = json.dumps(trimmed, sort_keys=True, separators=(",", ":"))
    PACKED.write_bytes(base64.encodebytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME)))


if __name__ == "__main__":
    main(*sys.argv[1:])
