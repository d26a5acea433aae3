"""A query from its text to its answer."""

from collections.abc import Mapping
from contextlib import nullcontext
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from graphql import (
    DocumentNode,
    ExecutionResult,
    FieldNode,
    GraphQLError,
    GraphQLSchema,
    OperationDefinitionNode,
    build_schema,
    execute_sync,
    parse,
    validate,
)

from github_emulator.callers.limits import Budget
from github_emulator.callers.tokens import Caller
from github_emulator.callers.visibility import may_push, visible
from github_emulator.core.errors import ApiError
from github_emulator.facade.github import GitHub
from github_emulator.graphql import errors
from github_emulator.graphql.auto_merges import disable_auto_merge
from github_emulator.graphql.check_runs import MUTATION, create_check_run
from github_emulator.graphql.connections import Cost, Info, MissingPageSize, cost_of
from github_emulator.graphql.objects import May, Objects, View
from github_emulator.graphql.ref_updates import update_refs
from github_emulator.graphql.reverts import revert_pull_request
from github_emulator.payloads import timestamp
from github_emulator.state import Repository

_SCHEMA_FILE = Path(__file__).with_name("schema.graphql")


@cache
def schema(*, stacks: bool = True) -> GraphQLSchema:
    """The part of GitHub's schema that the emulator answers; without stacks it is an older one."""
    text = _SCHEMA_FILE.read_text(encoding="utf-8")
    built = build_schema(text if stacks else text.replace("  stack: PullRequestStack\n", ""))
    for name in ("Actor", "GitObject", "RepositoryOwner"):
        built.type_map[name].resolve_type = _type_of  # type: ignore[attr-defined]
    return built


def _type_of(record: Any, *_: Any) -> str:
    return str(record["__typename"])


@lru_cache(maxsize=256)
def read(query: str, stacks: bool) -> tuple[DocumentNode | None, tuple[GraphQLError, ...]]:
    """A query as a document, or what is wrong with it."""
    try:
        document = parse(query)
    except GraphQLError as error:
        return None, (error,)
    return document, tuple(validate(schema(stacks=stacks), document))


class Execution:
    """One caller's query. `cost` is known before anything is resolved."""

    def __init__(
        self,
        github: GitHub,
        caller: Caller,
        query: str,
        variables: Mapping[str, Any],
        operation: str | None,
        *,
        branches: View = nullcontext,
    ) -> None:
        self._github = github
        self._caller = caller
        self._variables = variables
        self._operation = operation
        self._branches = branches
        self._document, self._mistakes = read(query, github.behaviour.shows_stacks)
        self._refused: MissingPageSize | None = None
        self.cost = Cost(1, 0)
        if self._document is not None and not self._mistakes:
            try:
                self.cost = cost_of(self._document, operation, variables)
            except MissingPageSize as error:
                self._refused = error

    @property
    def check_runs(self) -> int:
        """How many check runs the mutation creates."""
        mutations = (
            (each for each in self._document.definitions if isinstance(each, OperationDefinitionNode))
            if self._document
            else ()
        )
        fields = (field for each in mutations for field in each.selection_set.selections)
        return sum(isinstance(field, FieldNode) and field.name.value == MUTATION for field in fields)

    def answer(self, budget: Budget) -> dict[str, Any]:
        """The body of the answer, `data` with `errors` where fields are refused."""
        if self._mistakes or self._document is None:
            return {"errors": [errors.malformed(error) for error in self._mistakes]}
        if self._refused is not None:
            return {"errors": [{"type": self._refused.kind, "message": str(self._refused)}]}
        result = execute_sync(
            schema(stacks=self._github.behaviour.shows_stacks),
            self._document,
            root_value={
                "repository": self._repository,
                "rateLimit": lambda _info, **_: self._rate_limit(budget),
                "updateRefs": self._update_refs,
                MUTATION: self._create_check_run,
                "disablePullRequestAutoMerge": self._disable_auto_merge,
                "revertPullRequest": self._revert_pull_request,
            },
            variable_values=dict(self._variables),
            operation_name=self._operation,
        )
        assert isinstance(result, ExecutionResult)
        answer: dict[str, Any] = {"data": result.data}
        if result.errors:
            answer["errors"] = [errors.shown(error) for error in result.errors]
        return answer

    def _repository(
        self,
        _info: Info,
        owner: str,
        name: str,
        *,
        followRenames: bool = True,  # noqa: N803
    ) -> dict[str, Any]:
        found = self._github.find_repository(f"{owner}/{name}")
        if found is None and followRenames:
            found = self._github.paths.found_at(f"{owner}/{name}")
        if found is None or not visible(self._github, self._caller, found):
            raise errors.not_found(f"Repository with the name '{owner}/{name}'")
        may, hidden = self._permissions(found), self._people_hidden()
        return Objects(self._github, found, may, people_hidden=hidden, branches=self._branches).repository()

    def _people_hidden(self) -> bool:
        """Whether this caller is an App that may not see who collaborates."""
        behaviour, by_app = self._github.behaviour, self._caller.installation is not None
        hidden = behaviour.permissions_need_push and not may_push(self._caller)
        return by_app and (hidden or not behaviour.collaborators_shown)

    def _permissions(self, repository: Repository) -> May:
        """An App reads what its token allows, and of public repositories what everybody may."""
        actor = self._caller.actor
        assert actor is not None, "the endpoint asks for a token"
        return lambda permission: not repository.private or actor.may(permission, "read")

    def _update_refs(self, _info: Info, input: dict[str, Any]) -> dict[str, Any]:
        assert self._caller.actor is not None
        try:
            return update_refs(self._github, self._caller, self._caller.actor, input)
        except ApiError as error:
            raise errors.of_rest(error) from error

    def _create_check_run(self, _info: Info, input: dict[str, Any]) -> dict[str, Any]:
        assert self._caller.actor is not None
        try:
            return create_check_run(self._github, self._caller, self._caller.actor, input)
        except ApiError as error:
            raise errors.of_rest(error) from error

    def _disable_auto_merge(self, _info: Info, input: dict[str, Any]) -> dict[str, Any]:
        assert self._caller.actor is not None
        return disable_auto_merge(self._github, self._caller, self._caller.actor, input)

    def _revert_pull_request(self, _info: Info, input: dict[str, Any]) -> dict[str, Any]:
        assert self._caller.actor is not None
        try:
            return revert_pull_request(self._github, self._caller, self._caller.actor, input)
        except ApiError as error:
            raise errors.of_rest(error) from error

    def _rate_limit(self, budget: Budget) -> dict[str, Any]:
        return {
            "cost": self.cost.points,
            "nodeCount": self.cost.nodes,
            "limit": budget.limit,
            "remaining": budget.remaining,
            "used": budget.used,
            "resetAt": timestamp(budget.reset),
        }
