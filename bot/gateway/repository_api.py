"""Read and write configuration files, reviews, reruns, branches and reactions."""

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from pydantic import Field

from bot.gateway import conversions
from bot.gateway.comments_and_checks import CommentApi
from bot.gateway.http.client import Call, Unsupported, check, parse_answer
from bot.gateway.http.installation_tokens import is_inaccessible
from bot.gateway.http.scopes import Purpose, Scope, Target
from bot.gateway.rules.rule_schemas import BranchAnswer
from bot.gateway.schemas import ContentAnswer, ListedPullCommitAnswer, NumberAnswer, RefAnswer, ReviewAnswer
from queue_engine.core.read_model import ReadModel
from queue_engine.domain.errors import Forbidden, Invalid, NotFound, Unavailable
from queue_engine.domain.facts import Branch, CommitHistory, Review
from queue_engine.domain.model import Repository

OWN_RULES = ".github"
"""The repository with an organisation's shared configuration."""


_CONFIGURATION = (
    "repository_{place}: repository(owner: $owner_{place}, name: $name_{place}) {{ databaseId "
    "commit: object(expression: $commit_{place}) {{ oid }} "
    "file: object(expression: $file_{place}) {{ __typename ... on Blob {{ isBinary isTruncated text }} }} }}"
)
"""One repository's part of a query. A replica may not know a new commit yet: then it has no file either."""
_NO_COMMIT = "no commit found"
"""GitHub's message if the branch or commit is missing, not the file."""

_UNCHECKED = frozenset({"gpgverify_error", "gpgverify_unavailable"})
"""GitHub's reasons ("Commit verification") for a signature that it could not check yet."""


class FilePart(ReadModel):
    """`Blob`; other objects, such as directories, have none of its fields."""

    text: str | None = None
    is_binary: bool | None = Field(default=None, alias="isBinary")
    is_truncated: bool | None = Field(default=None, alias="isTruncated")

    @property
    def complete_text(self) -> str:
        """The text; empty where GitHub shows no complete one."""
        return "" if self.is_truncated or self.is_binary else self.text or ""


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
        return "" if self.file is None else self.file.complete_text


class RepositoryApi(CommentApi):
    """Reads and writes repositories. Part of `Gateway`."""

    def forget_token(self, installation_id: int) -> None:
        self._connection.forget_token(installation_id)

    async def prepare_writes(self, repository: Repository) -> None:
        await self._connection.prepare_writes(repository)

    async def configuration(self, repository: Repository, base_branch: str | None) -> str | None:
        """`GET /repos/{owner}/{repo}/contents/.github/imq.yml` at a branch, without one at the default branch.

        Raises Invalid when it is no text.
        """
        if base_branch is None:
            return await self._file(repository, {}, "")
        return await self._file(repository, {"ref": base_branch}, "?ref={ref}")

    async def configurations(
        self, repositories: Sequence[Repository], tips: Mapping[int, str] = MappingProxyType({})
    ) -> Mapping[int, str | None]:
        declared, read, variables = list[str](), list[str](), dict[str, str]()
        for place, each in enumerate(repositories):
            tip = tips.get(each.id, "HEAD")
            fields = {"owner": each.owner, "name": each.name, "commit": tip, "file": f"{tip}:.github/imq.yml"}
            variables |= {f"{name}_{place}": value for name, value in fields.items()}
            declared += [f"${name}_{place}: String!" for name in fields]
            read.append(_CONFIGURATION.format(place=place))
        text = f"query Configurations({', '.join(declared)}) {{ {' '.join(read)} }}"
        target = Scope(repositories[0].installation_id, None, Purpose.FILES)
        try:
            answer = await self._connection.ask(target, text, variables)
            check(answer, [])
        except Unsupported:
            return {}
        refused = {error.path[0] for error in answer.errors if error.path}
        found = dict[int, str | None]()
        for place, each in enumerate(repositories):
            alias = f"repository_{place}"
            if alias not in refused and (shown := (answer.data or {}).get(alias)) is not None:
                part = parse_answer(ConfigPart, shown)
                if part.number == each.id and part.is_certain:
                    found[each.id] = part.text or None
        return found

    async def organisation_configuration(self, repository: Repository, commit: str | None = None) -> str | None:
        if repository.name == OWN_RULES:
            return None
        variables = {"owner": repository.owner, "repo": OWN_RULES}
        try:
            if commit is None:
                return await self._file(repository.installation_id, variables, "")
            return await self._file(repository.installation_id, {**variables, "ref": commit}, "?ref={ref}")
        except Forbidden:
            return None

    async def _file(self, target: Target, variables: dict[str, str], query: str) -> str | None:
        call = Call("GET", "/repos/{owner}/{repo}/contents/.github/imq.yml" + query, variables)
        try:
            page = await self._connection.call(target, call)
        except NotFound as missing:
            if isinstance(target, int) and is_inaccessible(missing):
                # A public repository is read without being covered by the installation.
                return await self._file(Scope(target, None, Purpose.LIST), variables, query)
            if _NO_COMMIT in missing.message.lower():
                # A replica may not know a new commit yet: the file is not missing.
                raise
            return None
        if page.data == []:
            raise Unavailable("the answer is not GitHub's: git has no empty folders")
        if isinstance(page.data, list):
            raise Invalid(".github/imq.yml is a directory, not a file")
        answer = parse_answer(ContentAnswer, page.data)
        if answer.type != "file":
            # A link is followed by GitHub itself, where it leads to a file of the repository.
            raise Invalid(f".github/imq.yml is a {answer.type}, not a file")
        if answer.encoding != "base64":
            raise Invalid(".github/imq.yml is no file that can be read")
        try:
            return base64.b64decode(answer.content).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise Invalid(".github/imq.yml is not written in UTF-8") from None

    async def reviews(self, repository: Repository, number: int) -> tuple[Review, ...]:
        """`GET /repos/{owner}/{repo}/pulls/{pull_number}/reviews`, oldest first."""
        template = "/repos/{owner}/{repo}/pulls/{pull_number}/reviews?per_page=100"
        answers = await self._connection.items(repository, ReviewAnswer, template, {"pull_number": str(number)})
        return tuple(map(conversions.review, answers))

    async def commit_texts(self, repository: Repository, number: int, *, author: str) -> CommitHistory:
        """`GET /repos/{owner}/{repo}/pulls/{pull_number}/commits`: at most 250 of them, as GitHub lists them."""
        commits = [each for each in await self._commits(repository, number) if len(each.parents) < 2]
        titles = (each.commit.message.strip().partition("\n")[0].strip() for each in commits)
        return CommitHistory(co_authors(commits, author=author), tuple(filter(None, titles)))

    async def unsigned_commits(self, repository: Repository, number: int) -> tuple[str, ...]:
        """`GET /repos/{owner}/{repo}/pulls/{pull_number}/commits`: at most 250 of them, as GitHub lists them."""
        commits = ((each.sha, each.commit.verification) for each in await self._commits(repository, number))
        return tuple(
            sha
            for sha, verification in commits
            if verification is not None and not verification.verified and verification.reason not in _UNCHECKED
        )

    async def _commits(self, repository: Repository, number: int) -> list[ListedPullCommitAnswer]:
        template = "/repos/{owner}/{repo}/pulls/{pull_number}/commits?per_page=100"
        where = {"pull_number": str(number)}
        return await self._connection.items(repository, ListedPullCommitAnswer, template, where)

    async def rerun(self, repository: Repository, actions_run: int) -> None:
        template = "/repos/{owner}/{repo}/actions/runs/{run_id}/rerun-failed-jobs"
        await self._write(repository, "POST", template, {}, run_id=str(actions_run))

    async def cancel_run(self, repository: Repository, actions_run: int) -> None:
        template = "/repos/{owner}/{repo}/actions/runs/{run_id}/cancel"
        await self._write(repository, "POST", template, {}, run_id=str(actions_run))

    async def is_in_use(self, repository: Repository, branch: str) -> bool:
        for query, value in (("base", branch), ("head", f"{repository.owner}:{branch}")):
            template = f"/repos/{{owner}}/{{repo}}/pulls?state=open&{query}={{{query}}}&per_page=1"
            if await self._connection.listed(repository, NumberAnswer, template, {query: value}, fresh=True):
                return True
        return False

    async def branch_tip(self, repository: Repository, branch: str) -> Branch | None:
        template = "/repos/{owner}/{repo}/branches/{branch}"
        try:
            answer = await self._connection.get(repository, BranchAnswer, template, {"branch": branch}, fresh=True)
        except NotFound:
            return None
        return conversions.branch_tip(answer)

    async def ref_target(self, repository: Repository, ref: str) -> str | None:
        template = "/repos/{owner}/{repo}/git/ref{/ref*}"
        call = Call("GET", template, {"ref": ref.split("/")[1:]})
        try:
            page = await self._connection.call(repository, call, fresh=True)
        except NotFound:
            return None
        return parse_answer(RefAnswer, page.data).object.sha

    async def delete_branch(self, repository: Repository, branch: str) -> None:
        await self.delete_ref(repository, f"refs/heads/{branch}")

    async def delete_ref(self, repository: Repository, ref: str) -> None:
        """`DELETE /repos/{owner}/{repo}/git/refs/{ref}`; GitHub answers 422 for one that is gone."""
        # Part by part: GitHub wants the slashes of a name as they are, and `fix#12` sent as it is would delete `fix`.
        template = "/repos/{owner}/{repo}/git/refs{/ref*}"
        call = Call("DELETE", template, {"ref": ref.split("/")[1:]})
        try:
            await self._connection.call(repository, call)
        except NotFound:
            return
        except Invalid as refusal:
            if "does not exist" not in refusal.message.lower():
                raise

    async def create_label(self, repository: Repository, name: str, color: str, description: str) -> bool:
        content = {"name": name, "color": color, "description": description}
        try:
            await self._write(repository, "POST", "/repos/{owner}/{repo}/labels", content)
        except Invalid as refusal:
            if "already_exists" not in refusal.message:
                raise
            return False
        return True

    async def react(self, repository: Repository, comment_id: int, content: str) -> None:
        template = "/repos/{owner}/{repo}/issues/comments/{comment_id}/reactions"
        await self._write(repository, "POST", template, {"content": content}, comment_id=str(comment_id))


_PARAGRAPHS = re.compile(r"\n[ \t]*\n")
_TRAILER = re.compile(r"co-authored-by[ \t]*:[ \t]*([^<>\n]+?)[ \t]*<([^<>\s]+)>[ \t]*", re.IGNORECASE)


def co_authors(commits: Iterable[ListedPullCommitAnswer], *, author: str) -> tuple[str, ...]:
    """Return `Name <address>` of everyone but the account `author`, each address once, in the order of the commits.

    A commit's own `Co-authored-by` trailers count, as in GitHub's squash.
    """
    own: set[str] = set()
    found: dict[str, str] = {}
    for commit in commits:
        if (person := commit.commit.author) is not None:
            if commit.author is not None and commit.author.login.casefold() == author.casefold():
                own.add(person.email.casefold())
            elif person.name and person.email:
                found.setdefault(person.email.casefold(), f"{person.name} <{person.email}>")
        for name, address in _trailers(commit.commit.message):
            found.setdefault(address.casefold(), f"{name} <{address}>")
    return tuple(shown for address, shown in found.items() if address not in own)


def _trailers(message: str) -> Iterator[tuple[str, str]]:
    """Return the trailers of the last paragraph; a message of one paragraph has none."""
    _, *paragraphs = _PARAGRAPHS.split(message.replace("\r\n", "\n").strip())
    for line in paragraphs[-1].split("\n") if paragraphs else ():
        if (trailer := _TRAILER.fullmatch(line)) is not None:
            yield trailer[1], trailer[2]
