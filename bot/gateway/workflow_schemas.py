"""The entries of `.github/workflows`, as GraphQL lists them."""

from collections.abc import Mapping

from pydantic import BaseModel, Field

_SUFFIXES = (".yml", ".yaml")


class FilePart(BaseModel):
    """`Blob`; other objects, such as directories, have none of its fields."""

    text: str | None = None
    is_binary: bool | None = Field(default=None, alias="isBinary")
    is_truncated: bool | None = Field(default=None, alias="isTruncated")


class EntryPart(BaseModel):
    """`TreeEntry`."""

    name: str
    object: FilePart | None = None


class FilesPart(BaseModel):
    """`Tree`; a file in the place of the directory has no entries."""

    entries: list[EntryPart] = Field(default_factory=list)


class CommitPart(BaseModel):
    """A git object."""

    oid: str


class WorkflowsPart(BaseModel):
    """`Repository`; `commit` and `directory` are null if they do not exist."""

    id: str
    commit: CommitPart | None = None
    directory: FilesPart | None = None


class WorkflowsAnswer(BaseModel):
    """The answer to the query for workflow files."""

    repository: WorkflowsPart


def workflow_texts(directory: str, tree: FilesPart | None) -> Mapping[str, str]:
    """Return the text of each workflow file by its path; empty where GitHub shows no complete text."""
    return {
        f"{directory}/{entry.name}": (entry.object.text or "") if entry.object and _is_whole(entry.object) else ""
        for entry in (tree.entries if tree else ())
        if entry.name.endswith(_SUFFIXES)
    }


def _is_whole(blob: FilePart) -> bool:
    return not blob.is_truncated and not blob.is_binary
