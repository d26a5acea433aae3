"""`/api/v1/repositories/{owner}/{repo}/pulls/{number}/queue`: queue a pull request, or take it out, for a person."""

from collections.abc import Mapping, Sequence
from functools import partial

from aiohttp import web
from pydantic import BaseModel, Field

from bot.api.auth import caller
from bot.api.errors import ApiError
from bot.api.payload import Nothing, Payload, payload
from bot.api.routes import Caller, Route
from notifications import texts
from queue_engine import desk
from queue_engine.core import trace
from queue_engine.engine import Engine
from queue_engine.model import Entry, Repository
from queue_engine.reasons import Reason

_ONE = "/repositories/{owner:[^/]{1,100}}/{repo:[^/]{1,100}}/pulls/{number:[1-9][0-9]{0,8}}/queue"

VARIABLES: Mapping[str, str] = {
    "owner": "The owner of the repository.",
    "repo": "The name of the repository.",
    "number": "The number of the pull request.",
}

_STATUS: Mapping[Reason, int] = {
    Reason.LABEL_WITHOUT_RIGHT: 403,
    Reason.CLOSED: 409,
    Reason.MERGED_ELSEWHERE: 409,
    Reason.HEAD_CHANGED: 409,
}
"""Of refusals; 422 for the others, which are the change's own."""

_SENTENCES: Mapping[Reason, str] = {
    Reason.LABEL_WITHOUT_RIGHT: "This needs the right to merge, and the person of this token does not have it here.",
    Reason.HEAD_CHANGED: "The head of the pull request is another one now.",
}
"""Where what is said in comments does not fit a call."""


class QueueCall(Payload):
    """What a caller may say about the pull request: the head that was looked at, as a whole SHA."""

    head_sha: str | None = Field(None, pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})$")


class QueuedAnswer(BaseModel):
    """Where the pull request stands; `position` is zero-based."""

    repository: str
    queue: str
    number: int
    position: int
    status: str
    head_sha: str
    queued_by: str

    @classmethod
    def of(cls, entry: Entry) -> "QueuedAnswer":
        """As of now."""
        return cls(
            repository=entry.repository.full_name,
            queue=entry.base_branch,
            number=entry.number,
            position=entry.position,
            status=entry.status.value,
            head_sha=entry.head,
            queued_by=entry.queued_by,
        )


class DequeuedAnswer(BaseModel):
    """Whether it left; if not, its merge is under way."""

    repository: str
    number: int
    left: bool


class QueueRoutes:
    """The routes, on one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def routes(self) -> Sequence[Route]:
        """What they are."""
        of_person = partial(Route, caller=Caller.PERSON, variables=VARIABLES)
        return [
            of_person(
                "POST",
                _ONE,
                self.enqueue,
                "queue_pull_request",
                "Queues a pull request.",
                body=QueueCall,
                answers={200: QueuedAnswer, 202: QueuedAnswer},
                refusals=(422, 429),
            ),
            of_person(
                "DELETE",
                _ONE,
                self.dequeue,
                "dequeue_pull_request",
                "Takes a pull request out of its queue.",
                body=Nothing,
                answers={200: DequeuedAnswer, 202: DequeuedAnswer},
                refusals=(422,),
            ),
        ]

    async def enqueue(self, request: web.Request) -> web.Response:
        """202: it is queued; 200: it was; 429: the queue is full; 403, 404, 409, 422: refused, with the reason."""
        login, said = _person(request), payload(request, QueueCall)
        repository, number = await self._repository(request), int(request.match_info["number"])
        with trace.span("api enqueue"):
            try:
                queued = await desk.enqueue(self._engine, repository, number, by=login, head_sha=said.head_sha)
            except desk.Refused as refused:
                raise _refusal(refused) from None
        answer = QueuedAnswer.of(queued.entry).model_dump(mode="json")
        return web.json_response(answer, status=202 if queued.new else 200)

    async def dequeue(self, request: web.Request) -> web.Response:
        """200: it left; 202: its merge is under way, so GitHub decides; 403; 404: it is not queued."""
        login = _person(request)
        payload(request, Nothing)
        repository, number = await self._repository(request), int(request.match_info["number"])
        with trace.span("api dequeue"):
            try:
                left = await desk.dequeue(self._engine, repository, number, by=login)
            except desk.Refused as refused:
                raise _refusal(refused) from None
            except desk.NotQueued:
                raise ApiError(404, "this pull request is not queued") from None
        answer = DequeuedAnswer(repository=repository.full_name, number=number, left=left)
        return web.json_response(answer.model_dump(mode="json"), status=200 if left else 202)

    async def _repository(self, request: web.Request) -> Repository:
        owner, name = request.match_info["owner"], request.match_info["repo"]
        async with self._engine.store.reading() as tx:
            found = await tx.queues.repository(owner, name)
        if found is None:
            raise ApiError(404, "IMQ knows no such repository: is its GitHub App installed there?")
        return found


def _person(request: web.Request) -> str:
    """The GitHub user for whom the token acts. Raises ApiError 403."""
    login = caller(request).login
    if login is None:
        raise ApiError(403, "this token may not do that: it needs one made with `imq token create --login`")
    return login


def _refusal(refused: desk.Refused) -> ApiError:
    reason = refused.reason
    words = _SENTENCES.get(reason, texts.REASONS[reason].sentence)
    sentence = words.format(base="its base branch", label=refused.label)
    return ApiError(_STATUS.get(reason, 422), sentence, reason=reason.value)
