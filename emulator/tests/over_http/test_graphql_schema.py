"""The emulator's GraphQL schema against GitHub's own."""

from collections.abc import Iterator
from typing import Any

from graphql import GraphQLEnumType, GraphQLNamedType, is_introspection_type

from github_emulator.graphql.execution import schema
from github_schemas.graphql import github_schema


def declarations(named: GraphQLNamedType) -> Iterator[str]:
    """What a type declares, one line each."""
    yield f"{type(named).__name__} {named.name}"
    if isinstance(named, GraphQLEnumType):
        yield from (f"{named.name}.{value}" for value in named.values)
    for interface in getattr(named, "interfaces", ()):
        yield f"{named.name} implements {interface.name}"
    fields: dict[str, Any] = getattr(named, "fields", {})
    for name, field in fields.items():
        yield f"{named.name}.{name}: {field.type} = {getattr(field, 'default_value', None)}"
        for argument, of in getattr(field, "args", {}).items():
            yield f"{named.name}.{name}({argument}: {of.type} = {of.default_value})"


def test_emulator_declares_nothing_that_github_does_not() -> None:
    """Names, types, nullability, arguments with their defaults, interfaces."""
    ours = {line for named in schema().type_map.values() for line in declarations(named)}
    github = {line for named in github_schema().type_map.values() for line in declarations(named)}
    assert len(ours) > 200
    assert ours - github == set()


def test_emulator_knows_every_value_of_an_enumeration() -> None:
    """A value that the emulator never answers would never be tried."""
    missing = [
        (name, set(named.values) ^ set(ours.values))
        for name, ours in schema().type_map.items()
        if isinstance(ours, GraphQLEnumType) and not is_introspection_type(ours)
        if isinstance(named := github_schema().type_map[name], GraphQLEnumType)
        if set(named.values) != set(ours.values)
    ]
    assert missing == []
