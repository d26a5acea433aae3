"""The part of GitHub's own GraphQL schema that IMQ and the emulator use, and how it is renewed.

schema.graphql is cut from the schema in the npm package @octokit/graphql-schema 15.26.1 (LICENSE). To renew it, declare
in the emulator's schema what IMQ asks for; then `npm pack @octokit/graphql-schema`, unpack it, and
`python -m github_schemas.graphql package/schema.graphql`.
"""

from functools import cache
from pathlib import Path

from graphql import GraphQLSchema, build_schema, extend_schema, parse

PREVIEW = """
type PullRequestStack { id: ID!, number: Int!, size: Int!, baseRefName: String! }
extend type PullRequest { stack: PullRequestStack }
"""
"""Stacks are a public preview, which the package does not have yet (github/gh-stack: "GraphQL API")."""

FILE = Path(__file__).with_name("schema.graphql")


@cache
def github_schema() -> GraphQLSchema:
    """GitHub's types that the emulator has too, with all of their fields that lead to no other type."""
    return extend_schema(build_schema(FILE.read_text(encoding="utf-8")), parse(PREVIEW))
