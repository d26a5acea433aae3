"""Every field that IMQ reads from GitHub, against the descriptions that GitHub publishes.

A model that demands more than GitHub promises refuses the whole answer: where GitHub may leave a field out, or set it
to null, the model has to allow it.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import product
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr

from bot.gateway import doctor_reads, github_app, people, schemas
from bot.gateway.rules import rule_schemas as rules
from bot.registration import manifest_flow
from bot.webhooks import normalize, payloads
from github_schemas.octokit import descriptions

R = "/repos/{}/{}"
ANSWERS: Mapping[str, tuple[type[BaseModel], ...]] = {
    "GET /app 200": (schemas.AppAnswer,),
    "GET /app/installations 200 []": (schemas.InstallationAnswer,),
    "GET /app/installations/{} 200": (schemas.InstallationAnswer,),
    "GET /app/hook/config 200": (schemas.WebhookAnswer,),
    "GET /app/hook/deliveries 200 []": (schemas.DeliveryAnswer,),
    "GET /app/hook/deliveries/{} 200": (schemas.DeliveryAddressAnswer,),
    "POST /app/installations/{}/access_tokens 201": (schemas.TokenAnswer,),
    "POST /app-manifests/{}/conversions 201": (manifest_flow._Conversion,),
    "GET /rate_limit 200": (github_app._LimitsAnswer,),
    "GET /users/{} 200": (people._AccountAnswer, people._OwnerAnswer),
    "GET /orgs/{}/teams/{}/members 200 []": (people._MemberAnswer,),
    "GET /user/{} 200": (people._AccountAnswer,),
    "GET /installation/repositories 200 repositories []": (schemas.RepositoryAnswer,),
    f"GET {R} 200": (schemas.RepositoryAnswer, doctor_reads._SettingsAnswer),
    f"GET {R}/collaborators/{{}}/permission 200": (schemas.PermissionAnswer, people._CollaboratorAnswer),
    f"GET {R}/contents/{{}} 200": (schemas.ContentAnswer,),
    f"GET {R}/activity 200 []": (schemas.ActivityAnswer,),
    f"GET {R}/branches/{{}} 200": (rules.BranchAnswer,),
    f"GET {R}/branches/{{}}/protection 200": (rules.ProtectionAnswer,),
    f"GET {R}/rules/branches/{{}} 200 []": (rules.RuleAnswer,),
    f"GET {R}/rules/branches/{{}} 200 [] type=pull_request parameters": (rules.PullRequestRuleAnswer,),
    f"GET {R}/rules/branches/{{}} 200 [] type=required_deployments parameters": (rules.DeploymentsRuleAnswer,),
    f"GET {R}/rules/branches/{{}} 200 [] type=required_status_checks parameters required_status_checks []": (
        rules.RulesetCheckAnswer,
    ),
    f"GET {R}/rules/branches/{{}} 200 [] type=code_scanning parameters code_scanning_tools []": (
        rules.ScanningToolAnswer,
    ),
    f"GET {R}/rulesets 200 []": (rules.ListedRulesetAnswer, doctor_reads._RulesetAnswer),
    f"GET {R}/rulesets/{{}} 200": (rules.RulesetAnswer,),
    f"GET {R}/rulesets/{{}} 200 conditions": (rules.RulesetScopeAnswer,),
    f"GET {R}/git/commits/{{}} 200": (schemas.CommitAnswer,),
    f"GET {R}/git/matching-refs/{{}} 200 []": (schemas.RefAnswer,),
    f"POST {R}/git/commits 201": (schemas.ShaAnswer,),
    f"GET {R}/git/trees/{{}} 200": (schemas.FilesAnswer,),
    f"GET {R}/git/trees/{{}} 200 tree []": (schemas.FileAnswer,),
    f"GET {R}/commits 200 []": (schemas.ListedCommitAnswer,),
    f"GET {R}/compare/{{}} 200": (schemas.ComparisonAnswer,),
    f"GET {R}/commits/{{}}/check-runs 200 check_runs []": (schemas.CheckRunAnswer,),
    f"GET {R}/commits/{{}}/check-suites 200 check_suites []": (schemas.CheckSuiteAnswer,),
    f"POST {R}/check-runs 201": (schemas.IdAnswer,),
    f"GET {R}/actions/runs 200 workflow_runs []": (schemas.WorkflowRunAnswer, doctor_reads._RunAnswer),
    f"GET {R}/actions/jobs/{{}} 200": (schemas.JobAnswer,),
    f"GET {R}/actions/runs/{{}}/jobs 200 jobs []": (schemas.JobAnswer,),
    f"GET {R}/actions/runs/{{}}/artifacts 200 artifacts []": (schemas.ArtifactAnswer,),
    f"GET {R}/actions/concurrency_groups/{{}} 200": (schemas.ConcurrencyGroupAnswer,),
    f"GET {R}/check-runs/{{}}/annotations 200 []": (schemas.AnnotationAnswer,),
    f"GET {R}/commits/{{}}/status 200 statuses []": (schemas.StatusAnswer,),
    f"GET {R}/issues 200 []": (schemas.IssueAnswer,),
    f"GET {R}/issues/{{}}/events 200 []": (schemas.EventAnswer,),
    f"GET {R}/issues/{{}}/comments 200 []": (schemas.CommentAnswer,),
    f"GET {R}/issues/comments 200 []": (schemas.CommentAnswer,),
    f"POST {R}/issues/{{}}/comments 201": (schemas.IdAnswer,),
    f"GET {R}/pulls 200 []": (schemas.PullRequestAnswer, schemas.NumberAnswer, doctor_reads._PullAnswer),
    f"GET {R}/pulls/{{}} 200": (schemas.PullRequestAnswer,),
    f"GET {R}/pulls/{{}}/reviews 200 []": (schemas.ReviewAnswer,),
    f"GET {R}/pulls/{{}}/commits 200 []": (schemas.ListedPullCommitAnswer,),
    f"PUT {R}/pulls/{{}}/merge 200": (schemas.ShaAnswer,),
}
"""Operation, status, and the place in the answer -> the models that read it there."""

WEBHOOKS: Mapping[str, type[BaseModel]] = {
    "pull_request": payloads.PullRequestEvent,
    "pull_request_review": payloads.ReviewEvent,
    "pull_request_review_thread": payloads.ReviewThreadEvent,
    "issue_comment": payloads.CommentEvent,
    "check_run": payloads.CheckRunEvent,
    "check_suite": payloads.CheckSuiteEvent,
    "workflow_run": payloads.WorkflowRunEvent,
    "status": payloads.StatusEvent,
    "push": payloads.PushEvent,
    "branch_protection_configuration": payloads.Payload,
    "branch_protection_rule": payloads.Payload,
    "repository_ruleset": payloads.Payload,
    "label": payloads.LabelEvent,
    "membership": payloads.Payload,
    "team": payloads.Payload,
    "installation": payloads.Payload,
    "installation_repositories": payloads.InstallationEvent,
    "installation_target": payloads.Payload,
    "repository": payloads.Payload,
}

EXCUSED: Mapping[str, str] = {
    "AppAnswer: may be null": "`GET /app` is asked with an App's own JWT, and everything else of it follows",
    "AppAnswer.slug: may be missing": "IMQ's login is made of the slug: without one no comment is known as IMQ's",
    "ContentAnswer: may be array": "a directory, which the gateway recognizes before",
    **dict.fromkeys(
        (
            "RulesetScopeAnswer: may be null",
            "RulesetScopeAnswer.ref_name: may be missing",
            "RulesetScopeAnswer.ref_name.include: may be missing",
        ),
        "IMQ asks GitHub for the rules of the branch when it cannot read the conditions",
    ),
    **{
        f"{event}.installation: may be missing": "GitHub's webhooks to an App name it; those of repositories do not"
        for event in {model.__name__ for model in WEBHOOKS.values()} - {"InstallationEvent"}
    },
}

Schema = dict[str, Any]
JSON_TYPES: Mapping[Any, set[str]] = {
    str: {"string"},
    SecretStr: {"string"},
    int: {"integer"},
    float: {"integer", "number"},
    bool: {"boolean"},
    datetime: {"string", "integer"},
    dict: {"object", "anything"},
}


class Description:
    """One of the two descriptions; `alternatives` of a schema have neither references nor combinations."""

    def __init__(self, kind: str) -> None:
        self.roots: dict[str, Schema] = descriptions()[kind]["roots"]
        self._components: dict[str, Schema] = descriptions()[kind]["components"]["schemas"]
        self.known: set[tuple[type[BaseModel], str]] = set()
        """The fields of the models that were met in a description."""

    def alternatives(self, schema: Schema) -> list[Schema]:
        if "$ref" in schema:
            return self.alternatives(self._components[schema["$ref"].rpartition("/")[2]])
        own = {name: schema[name] for name in schema.keys() - {"anyOf", "oneOf", "allOf"}}
        types = own.get("type")
        found = [{**own, "type": each} for each in types] if isinstance(types, list) else [own]
        choices = [schema[choice] for choice in ("anyOf", "oneOf") if choice in schema]
        choices += [[part] for part in schema.get("allOf", ())]
        for choice in choices:
            inner = [each for part in choice for each in self.alternatives(part)]
            found = [both(one, other) for one, other in product(found, inner) if can_be_both(one, other)]
        return found

    def at(self, place: str) -> list[Schema]:
        """The alternatives at a place: `[]` enters a list, `name=value` chooses, and a name enters a field."""
        method, path, status, *steps = place.split()
        found = self.alternatives(self.roots[f"{method} {path} {status}"])
        for step in steps:
            name, _, value = step.partition("=")
            if value:
                found = [each for each in found if self._is(each["properties"][name], value)]
            else:
                inner = [each["items"] if step == "[]" else each["properties"][name] for each in found]
                found = [each for schema in inner for each in self.alternatives(schema)]
            assert found, f"nothing is at {place}"
        return found

    def _is(self, schema: Schema, value: str) -> bool:
        return any(each.get("enum") == [value] for each in self.alternatives(schema))

    def problems(self, annotation: Any, found: list[Schema], place: str) -> Iterator[str]:
        """What GitHub may send at this place that a field of this annotation refuses."""
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        if annotation is Any:
            return
        choices = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
        if type(None) not in choices and any(each.get("type") == "null" for each in found):
            yield f"{place}: may be null"
        values = [each for each in found if each.get("type") != "null"]
        plain = [get_args(each)[0] if get_origin(each) is Annotated else each for each in choices]
        kinds = [each for each in plain if each is not type(None)]
        kind = kinds[0]
        origin = get_origin(kind) or kind
        if isinstance(origin, type) and issubclass(origin, BaseModel):
            yield from self._problems_of_model(origin, values, place)
        elif origin in (list, tuple):
            yield from wrong_types(values, {"array"}, place)
            items = [each for schema in values for each in self.alternatives(schema.get("items", {}))]
            yield from self.problems(get_args(kind)[0], items, f"{place}[]")
        else:
            right = {name for each in kinds for name in JSON_TYPES[get_origin(each) or each]}
            yield from wrong_types(values, right, place)

    def _problems_of_model(self, model: type[BaseModel], found: list[Schema], place: str) -> Iterator[str]:
        model.model_rebuild()
        yield from wrong_types(found, {"object", "anything"}, place)
        found = [each for each in found if each.get("type", "object") == "object"]
        for name, field in model.model_fields.items():
            where = f"{place}.{name}"
            having = [each["properties"][name] for each in found if name in each.get("properties", {})]
            if field.is_required() and any(name not in each.get("required", ()) for each in found):
                yield f"{where}: may be missing"
            if having:
                self.known.add((model, name))
                inner = [each for schema in having for each in self.alternatives(schema)]
                yield from self.problems(field.annotation, inner, where)


def wrong_types(found: list[Schema], right: set[str], place: str) -> Iterator[str]:
    for kind in sorted({str(each.get("type", "anything")) for each in found} - right):
        yield f"{place}: may be {kind}"


def can_be_both(one: Schema, other: Schema) -> bool:
    types = {each["type"] for each in (one, other) if "type" in each}
    return len(types) < 2 or types == {"integer", "number"}


def both(one: Schema, other: Schema) -> Schema:
    """What satisfies two schemas at once."""
    fields = one.get("properties", {}).keys() | other.get("properties", {}).keys()
    properties = {
        name: {"allOf": [each["properties"][name] for each in (one, other) if name in each.get("properties", {})]}
        for name in fields
    }
    required = [*one.get("required", ()), *other.get("required", ())]
    return {**one, **other, "properties": properties, "required": required}


def problems_of_answer(rest: Description, place: str) -> list[str]:
    """What GitHub may answer there that a model refuses."""
    return [problem for model in ANSWERS[place] for problem in rest.problems(model, rest.at(place), model.__name__)]


def problems_of_webhook(webhooks: Description, event: str) -> list[str]:
    """What GitHub may send with this event that its model refuses, in any of its actions."""
    model = WEBHOOKS[event]
    roots = [schema for name, schema in webhooks.roots.items() if name.partition(".")[0] == event]
    assert roots, f"{event} is no event of GitHub's"
    return [
        problem
        for schema in roots
        for problem in webhooks.problems(model, webhooks.alternatives(schema), model.__name__)
    ]


def test_field_of_an_answer_may_lack_in_the_model_what_it_may_lack_on_github() -> None:
    """A field that GitHub may leave out has a default, and one that may be null has a place for it."""
    for place in ANSWERS:
        assert set(problems_of_answer(Description("rest"), place)) - EXCUSED.keys() == set(), place


def test_field_of_a_webhook_may_lack_in_the_model_what_it_may_lack_on_github() -> None:
    for event in WEBHOOKS:
        assert set(problems_of_webhook(Description("webhooks"), event)) - EXCUSED.keys() == set(), event


def test_every_model_is_compared_and_every_field_of_it_is_known_to_github() -> None:
    """A misspelled field would have its default for ever; a new model needs its place above."""
    rest, webhooks = Description("rest"), Description("webhooks")
    problems = {problem for place in ANSWERS for problem in problems_of_answer(rest, place)}
    problems |= {problem for event in WEBHOOKS for problem in problems_of_webhook(webhooks, event)}
    known = rest.known | webhooks.known
    names = {(each.__name__, field) for each, field in known for each in each.__mro__}
    unknown = {
        (model.__name__, field)
        for module in (github_app, doctor_reads, manifest_flow, payloads, people, rules, schemas, people)
        for model in vars(module).values()
        if isinstance(model, type) and issubclass(model, BaseModel) and model.__module__ == module.__name__
        for field in model.model_fields.keys() & model.__annotations__.keys()
    } - names
    assert unknown == set()
    assert EXCUSED.keys() <= problems, "these are no problems any more"


def test_normalizer_of_every_event_has_its_model_here() -> None:
    assert normalize.EVENTS.keys() == WEBHOOKS.keys()
