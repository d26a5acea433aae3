"""The entries of `.github/workflows` and single files, as GraphQL shows them."""

from collections.abc import Mapping, Sequence

from pydantic import Field

from queue_engine.core.read_model import ReadModel

_SUFFIXES = (".yml", ".yaml")


class FilePart(ReadModel):
    """`Blob`; other objects, such as directories, have none of its fields."""

    text: str | None = None
    is_binary: bool | None = Field(default=None, alias="isBinary")
    is_truncated: bool | None = Field(default=None, alias="isTruncated")


class EntryPart(ReadModel):
    """`TreeEntry`."""

    name: str
    object: FilePart | None = None


class FilesPart(ReadModel):
    """`Tree`; a file in the place of the directory has no entries."""

    entries: list[EntryPart] = Field(default_factory=list)


class CommitPart(ReadModel):
    """A git object."""

    oid: str


class ConfigPart(ReadModel):
    """`Repository` with its configuration; `file` is null if there is none."""

    number: int = Field(alias="databaseId")
    commit: CommitPart | None
    file: FilePart | None

    @property
    def is_certain(self) -> bool:
        """Whether there is no file, or its text is shown: that of a link is its target, in one line without an end."""
        return self.commit is not None and (self.file is None or "\n" in self.text)

    @property
    def text(self) -> str:
        """The file's text; empty where GitHub shows no complete one."""
        return "" if self.file is None else _text(self.file)


class WorkflowsPart(ReadModel):
    """`Repository`; `commit` and `directory` are null if they do not exist."""

    id: str
    commit: CommitPart | None = None
    directory: FilesPart | None = None


class WorkflowsAnswer(ReadModel):
    """The answer to the query for workflow files."""

    repository: WorkflowsPart


class TextsAnswer(ReadModel):
    """The answer to a query for files; null where there is none, by the alias of each."""

    repository: dict[str, FilePart | None]


def file_texts(paths: Sequence[str], answer: TextsAnswer) -> Mapping[str, str]:
    """Return the text of each file that there is; empty where GitHub shows no complete text.

    A folder has none of a file's fields.
    """
    found = {path: answer.repository.get(f"file{place}") for place, path in enumerate(paths)}
    return {path: _text(blob) for path, blob in found.items() if blob is not None and blob.is_truncated is not None}


def workflow_texts(directory: str, tree: FilesPart | None) -> Mapping[str, str]:
    """Return the text of each workflow file by its path; empty where GitHub shows no complete text."""
    return {
        f"{directory}/{entry.name}": _text(entry.object) if entry.object else ""
        for entry in (tree.entries if tree else ())
        if entry.name.endswith(_SUFFIXES)
    }


def _text(blob: FilePart) -> str:
    return "" if blob.is_truncated or blob.is_binary else blob.text or ""
