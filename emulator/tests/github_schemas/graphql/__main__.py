"""Cuts what the emulator's schema names from GitHub's whole schema, given as a file's path."""

import re
import sys
from collections.abc import Container
from pathlib import Path
from typing import Any

from graphql import (
    REMOVE,
    DirectiveDefinitionNode,
    DirectiveNode,
    EnumTypeDefinitionNode,
    FieldDefinitionNode,
    InputValueDefinitionNode,
    NamedTypeNode,
    Node,
    ScalarTypeDefinitionNode,
    TypeDefinitionNode,
    TypeNode,
    Visitor,
    parse,
    print_ast,
    specified_scalar_types,
    visit,
)

from github_emulator.graphql.execution import schema
from github_schemas.graphql import FILE

_HEAD = "# Cut from the npm package @octokit/graphql-schema (LICENSE) by `python -m github_schemas.graphql`.\n"
_DESCRIPTION = re.compile(r'""".*?"""', re.DOTALL)
_LEAVES = (ScalarTypeDefinitionNode, EnumTypeDefinitionNode)


class _Cut(Visitor):
    """Keeps `types`, and of their fields and arguments those that lead to no other type."""

    def __init__(self, types: Container[str]) -> None:
        super().__init__()
        self._types = types
        self.used: set[str] = set()

    def enter(self, node: Node, key: Any, parent: Any, path: list[Any], ancestors: list[Any]) -> Any:
        if isinstance(node, DirectiveNode):
            return REMOVE
        if isinstance(node, TypeDefinitionNode | DirectiveDefinitionNode):
            return None if node.name.value in self._types else REMOVE
        if isinstance(node, FieldDefinitionNode | InputValueDefinitionNode) and _named(node.type) not in self._types:
            return REMOVE
        if isinstance(node, NamedTypeNode):
            if node.name.value not in self._types:
                return REMOVE
            self.used.add(node.name.value)
        return None


def _named(node: TypeNode) -> str:
    while not isinstance(node, NamedTypeNode):
        node = node.type  # type: ignore[attr-defined]
    return node.name.value


def cut(text: str) -> str:
    """The part of GitHub's schema, in its own order, without descriptions and directives."""
    whole = parse(_DESCRIPTION.sub("", text), no_location=True)
    wanted = {name for name in schema().type_map if not name.startswith("__")}
    leaves = {node.name.value for node in whole.definitions if isinstance(node, _LEAVES)}
    first = _Cut(wanted | leaves | set(specified_scalar_types))
    part = visit(whole, first)
    return _HEAD + print_ast(visit(part, _Cut(wanted | first.used))) + "\n"


if __name__ == "__main__":
    FILE.write_text(cut(Path(sys.argv[1]).read_text(encoding="utf-8")), encoding="utf-8")
