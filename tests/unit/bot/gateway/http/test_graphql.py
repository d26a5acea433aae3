"""IMQ's GraphQL queries, and how it reads their answers, against GitHub's own schema.

GitHub refuses a whole query for one field that it does not have.
"""

from typing import Any

import pytest
from graphql import (
    GraphQLAbstractType,
    GraphQLEnumType,
    GraphQLList,
    GraphQLNonNull,
    GraphQLResolveInfo,
    GraphQLScalarType,
    execute_sync,
    get_named_type,
    get_nullable_type,
    parse,
    validate,
)

from bot.gateway import Gateway, snapshot_schemas
from bot.gateway.comments_and_checks import mutation
from github_schemas.graphql import github_schema
from queue_engine.domain.facts import Permission, Snapshot
from queue_engine.domain.model import Repository
from tests.unit.bot.github_double import GitHubDouble, Says

QUERIES = {
    "one": snapshot_schemas.PULL_REQUEST,
    "one with stacks": snapshot_schemas.with_stacks(snapshot_schemas.PULL_REQUEST),
    "several": snapshot_schemas.with_stacks(snapshot_schemas.of_several(10, 2)),
    "conversations": snapshot_schemas.THREADS,
    "check runs": mutation(2),
}
VARIABLES = {
    "owner": "ada",
    "name": "engine",
    "number": 3,
    "login": "grace",
    "person": True,
    "head": "h1",
    "compared": True,
}
SCALARS = {"Boolean": False, "Int": 1, "DateTime": "2026-01-02T03:00:00Z", "GitObjectID": "h1"}
NEEDED = {("repository",), ("repository", "pullRequest")}
"""Without these there is nothing to judge; an error of GitHub's beside them says why."""
Place = tuple[str, ...]


class Answers:
    """Answers to a query, made from GitHub's schema: whole, or with something else at one place.

    `others` are the places with what else GitHub may tell there: null, or another value of the enumeration.
    """

    def __init__(self, query: str) -> None:
        self._query = parse(query)
        self._instead: dict[Place, Any] = {}
        self._others: dict[tuple[Place, Any], None] = {}
        self.whole = self.with_instead({})
        self.others = [other for other in self._others if other[0] not in NEEDED]

    def with_instead(self, instead: dict[Place, Any]) -> Any:
        self._instead = instead
        made = execute_sync(
            github_schema(),
            self._query,
            variable_values=VARIABLES,
            field_resolver=self._resolve,
            type_resolver=_type_of,
        )
        assert made.errors is None
        return made.data

    def _resolve(self, _: Any, info: GraphQLResolveInfo[Any], **__: Any) -> Any:
        place = tuple(part for part in info.path.as_list() if isinstance(part, str))
        named = get_named_type(info.return_type)
        if not isinstance(info.return_type, GraphQLNonNull):
            self._others[place, None] = None
        if isinstance(named, GraphQLEnumType):
            self._others |= {(place, value): None for value in named.values}
        if place in self._instead:
            return self._instead[place]
        value: Any = {}
        if isinstance(named, GraphQLEnumType):
            value = next(iter(named.values))
        elif isinstance(named, GraphQLScalarType):
            value = SCALARS.get(named.name, "grace")
        listed = get_nullable_type(info.return_type)
        if isinstance(listed, GraphQLList):
            return [value] if isinstance(listed.of_type, GraphQLNonNull) else [None, value]
        return value


def _type_of(_: Any, info: GraphQLResolveInfo[Any], abstract: GraphQLAbstractType) -> str:
    return github_schema().get_possible_types(abstract)[0].name


@pytest.fixture
def answers() -> Answers:
    return Answers(snapshot_schemas.PULL_REQUEST)


@pytest.mark.parametrize("name", QUERIES)
def test_query_is_one_that_github_accepts(name: str) -> None:
    """Every field, argument and variable exists, with its type."""
    assert validate(github_schema(), parse(QUERIES[name])) == []


async def test_answer_with_null_or_any_value_that_the_schema_allows_is_understood(
    gateway: Gateway, github: GitHubDouble, repository: Repository, answers: Answers
) -> None:
    """P5: null, or any other value that GitHub's schema allows, is no error."""
    github.on("GET", "/repos/ada/engine/collaborators/grace/permission", Says({"permission": "write"}))

    async def snapshot(data: Any) -> Snapshot:
        github.on("POST", "/graphql", Says({"data": data}))
        return await gateway.snapshot(repository, 3, login="grace", head_sha="h1")

    whole = await snapshot(answers.whole)
    assert (whole.permission, whole.pull.comments) == (Permission.ADMIN, 1)
    uncounted = await snapshot(answers.with_instead({("repository", "pullRequest", "totalCommentsCount"): None}))
    assert uncounted.pull.comments is None
    assert len(answers.others) > 40
    for place, value in answers.others:
        taken = await snapshot(answers.with_instead({place: value}))
        assert taken.pull.number == 1, f"{value} at {place}"


def test_page_of_conversations_with_null_where_the_schema_allows_it_is_understood() -> None:
    """The rest of a long discussion, read like the first page."""
    made = Answers(snapshot_schemas.THREADS)
    for other in [None, *made.others]:
        data = made.with_instead({} if other is None else dict([other]))
        snapshot_schemas.ThreadsAnswer.model_validate(data)
