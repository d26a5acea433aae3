"""Connections: lists by pages, as the GraphQL API shows them, and what a query costs of its limits.

Source: GitHub's page "Rate limits and query limits for the GraphQL API": every connection needs `first` or `last` of 1
to 100, and a query costs a hundredth of the requests that its connections stand for, at least one point.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from graphql import (
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLResolveInfo,
    InlineFragmentNode,
    IntValueNode,
    OperationDefinitionNode,
    SelectionSetNode,
    VariableNode,
)

Item = TypeVar("Item")
Info = GraphQLResolveInfo[Any]
_MOST = 100
CONNECTIONS = frozenset(
    {
        "assignees",
        "associatedPullRequests",
        "checkRuns",
        "checkSuites",
        "collaborators",
        "commits",
        "labels",
        "latestOpinionatedReviews",
        "parents",
        "reviewThreads",
    }
)


class MissingPageSize(Exception):
    """A connection without a valid bound: the whole query is refused."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Cost:
    """What a query costs: points of the primary limit, and nodes that it may return."""

    points: int
    nodes: int


def connection(items: Sequence[Item], show: Callable[[Item], Any]) -> Callable[..., dict[str, Any]]:
    """A resolver of one connection over these items."""

    def resolve(
        _info: Info,
        first: int | None = None,
        last: int | None = None,
        after: str | None = None,
        before: str | None = None,
        **_filters: Any,
    ) -> dict[str, Any]:
        start, end = _place(after, 0, 1), _place(before, len(items), 0)
        if first is not None:
            end = min(end, start + first)
        elif last is not None:
            start = max(start, end - last)
        return _page(items, start, end, show)

    return resolve


def _page(items: Sequence[Item], start: int, end: int, show: Callable[[Item], Any]) -> dict[str, Any]:
    shown = [show(item) for item in items[start:end]]
    cursors = [_cursor(place) for place in range(start, start + len(shown))]
    return {
        "nodes": shown,
        "edges": [{"node": node, "cursor": cursor} for node, cursor in zip(shown, cursors, strict=True)],
        "totalCount": len(items),
        "pageInfo": {
            "hasNextPage": end < len(items),
            "hasPreviousPage": start > 0,
            "startCursor": cursors[0] if cursors else None,
            "endCursor": cursors[-1] if cursors else None,
        },
    }


def cost_of(document: DocumentNode, operation: str | None, variables: Mapping[str, Any]) -> Cost:
    """What this query costs. Raises MissingPageSize for a connection that is not bounded as GitHub demands."""
    fragments = {node.name.value: node for node in document.definitions if isinstance(node, FragmentDefinitionNode)}
    requests = nodes = 0

    def visit(selection: SelectionSetNode | None, times: int) -> None:
        nonlocal requests, nodes
        for node in selection.selections if selection else ():
            if isinstance(node, FragmentSpreadNode):
                visit(fragments[node.name.value].selection_set, times)
                continue
            within = times
            if isinstance(node, FieldNode) and node.name.value in CONNECTIONS:
                size = _size(node, variables)
                requests, within = requests + times, times * size
                nodes += within
            if isinstance(node, FieldNode | InlineFragmentNode):
                visit(node.selection_set, within)

    for definition in document.definitions:
        if isinstance(definition, OperationDefinitionNode) and operation in {
            None,
            definition.name and definition.name.value,
        }:
            visit(definition.selection_set, 1)
    return Cost(max(1, round(requests / 100)), nodes)


def _size(node: FieldNode, variables: Mapping[str, Any]) -> int:
    name = node.name.value
    for argument in node.arguments or ():
        if argument.name.value not in {"first", "last"}:
            continue
        value = argument.value
        if isinstance(value, VariableNode):
            size = variables.get(value.name.value)
        else:
            size = int(value.value) if isinstance(value, IntValueNode) else None
        if isinstance(size, int):
            if not 1 <= size <= _MOST:
                bound = argument.name.value
                message = f"Requesting {size} records on the `{name}` connection exceeds the `{bound}` limit of {_MOST}"
                raise MissingPageSize("EXCESSIVE_PAGINATION", f"{message} records.")
            return size
    message = f"You must provide a `first` or `last` value to properly paginate the `{name}` connection."
    raise MissingPageSize("MISSING_PAGINATION_BOUNDARIES", message)


def _cursor(place: int) -> str:
    return base64.b64encode(f"cursor:{place}".encode()).decode()


def _place(cursor: str | None, default: int, beyond: int) -> int:
    if cursor is None:
        return default
    return int(base64.b64decode(cursor).decode().partition(":")[2]) + beyond
