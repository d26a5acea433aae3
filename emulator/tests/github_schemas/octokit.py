"""GitHub's own OpenAPI descriptions, as Octokit's npm packages have them: a second judge of answers and webhooks.

`trim_octokit` made `octokit_schemas.b64` of them; `octokit_schemas.LICENSE` is theirs.
"""

import base64
import json
import lzma
import re
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jsonschema_rs

PACKED = Path(__file__).with_name("octokit_schemas.b64")
_MOST = 5
"""As many problems of one document are reported."""
_FORMATS = {"email": lambda text: "@" in text}
"""A bot's address has brackets, as 49699333+dependabot[bot]@users.noreply.github.com."""
_MISTAKES = (
    # github/rest-api-description #3775: the list of an App's events is not renewed; githubkit #118 takes any string.
    ("check_(suite|run)", "check_(suite|run)/.*events/.*", '"(branch_protection_configuration|repository_ruleset)"'),
    # github/rest-api-description #424, #1811; githubkit #200: the head of a pull request from a deleted fork.
    (".*/pulls", "(.*/)?head/repo", "null is not of type"),
    # github/rest-api-description #1812, githubkit #7: a label without description, where pull requests are listed.
    (".*/pulls", "[0-9]+/labels/[0-9]+/description", "null is not of type"),
    # The description of the REST API, which is newer, lists users among those who may bypass a ruleset.
    ("repository_ruleset", "repository_ruleset/bypass_actors/[0-9]+/actor_type", '"User"'),
    # `allOf` a user and an enterprise; the component `installation` of the same document says `anyOf`.
    ("GET /app/installations 200", "[0-9]+/account", ".* 'anyOf'"),
)
"""Where the descriptions are wrong about GitHub: the schema's name, the place and the problem, as patterns."""


def any_parameter(template: str) -> str:
    """A template whose parameters have no names: these differ between the emulator and the description."""
    return re.sub(r"{[^}]*}", "{}", template)


@cache
def descriptions() -> dict[str, Any]:
    read: dict[str, Any] = json.loads(lzma.decompress(base64.decodebytes(PACKED.read_bytes())))
    return read


@cache
def _registry(kind: str) -> jsonschema_rs.Registry:
    return jsonschema_rs.Registry([(f"urn:{kind}", descriptions()[kind])], draft=jsonschema_rs.Draft202012)


@cache
def _validator(kind: str, name: str) -> jsonschema_rs.Draft202012Validator:
    pointer = quote(name.replace("~", "~0").replace("/", "~1"))
    schema = {"$ref": f"urn:{kind}#/roots/{pointer}"}
    return jsonschema_rs.Draft202012Validator(schema, formats=_FORMATS, validate_formats=True, registry=_registry(kind))


def _check(kind: str, name: str, content: Any) -> None:
    problems = [
        (place, problem.message)
        for problem in _validator(kind, name).iter_errors(content)
        for place in ["/".join(str(step) for step in problem.instance_path)]
        if not _is_mistake(name, place, problem.message)
    ]
    listed = "\n".join(f"{place}: {message[:300]}" for place, message in problems[:_MOST])
    assert not problems, f"{name} has {len(problems)} problems:\n{listed}"


def _is_mistake(name: str, place: str, problem: str) -> bool:
    return any(
        re.match(names, name) and re.fullmatch(places, place) and re.match(problems, problem)
        for names, places, problems in _MISTAKES
    )


def check_answer(template: str, status: int, content: Any) -> None:
    """Fails if the operation has no such success, or if an answer does not fit the schema of its status.

    Redirects and refusals are not all listed in the descriptions: only those that are listed are checked.
    """
    name = f"{any_parameter(template)} {status}"
    answers = descriptions()["rest"]["roots"]
    if name not in answers:
        assert status >= 300, f"{name} is not documented"
    elif answers[name] is None:
        assert content is None or status >= 400, f"{name} has no content"
    else:
        _check("rest", name, content)


def check_webhook(event: str, payload: dict[str, Any]) -> None:
    """Fails if GitHub sends no such event, or sends it in another shape."""
    name = ".".join((event, payload["action"])) if "action" in payload else event
    assert name in descriptions()["webhooks"]["roots"], f"{name} is not documented"
    _check("webhooks", name, payload)


def page(template: str) -> str:
    """Where the reference documents an operation."""
    found: str = descriptions()["rest"]["pages"][any_parameter(template)]
    return found
