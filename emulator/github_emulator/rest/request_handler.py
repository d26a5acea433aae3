"""The true answer to a request: limits, access, the endpoint. Synchronous, so nothing happens in between."""

from dataclasses import dataclass

from aiohttp import web

from github_emulator.callers.errors import Moved, Refusal, not_found
from github_emulator.callers.limits import Limits, PrimaryLimit
from github_emulator.callers.tokens import Caller, Tokens
from github_emulator.callers.visibility import sees_members, visible
from github_emulator.core.errors import ApiError
from github_emulator.facade.github import GitHub
from github_emulator.rest import reply as replies
from github_emulator.rest.access import admit, find_repository
from github_emulator.rest.answer import Answer
from github_emulator.rest.call import Call, parse_body
from github_emulator.rest.lag import Lag, kind_of
from github_emulator.rest.record import RecordedCall
from github_emulator.rest.reply import Reply
from github_emulator.rest.routing import Route
from github_emulator.state import Repository


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A request that has arrived whole: for which route, below which prefix, by whom, with which body."""

    route: Route | None
    prefix: str
    request: web.Request
    recorded: RecordedCall
    caller: Caller
    raw: bytes

    @property
    def resource(self) -> str:
        """The limit that it costs of."""
        return "core" if self.route is None else self.route.resource

    @property
    def writes(self) -> bool:
        """Whether it counts as a write; every GraphQL query is a POST, and only mutations write."""
        if self.resource == "graphql":
            return b"mutation" in self.raw
        return self.request.method not in ("GET", "HEAD")

    @property
    def api_url(self) -> str:
        """Where the API is served that it asked."""
        return f"{self.request.scheme}://{self.request.host}{self.prefix}"

    def path_by_id(self, repository: Repository) -> str:
        """Its path with the repository's id, which survives a renaming, as in GitHub's own links."""
        named = "/repos/{owner}/{repo}".format(**self.request.match_info)
        return self.recorded.path.replace(named, f"/repositories/{repository.id}", 1)


class RequestHandler:
    """Answers requests as GitHub does, with nothing lost on the way. `crashes` are errors of the emulator itself."""

    def __init__(self, github: GitHub, tokens: Tokens, limits: Limits, lag: Lag) -> None:
        self._github = github
        self._tokens = tokens
        self._limits = limits
        self._lag = lag
        self.crashes: list[Exception] = []

    def answer(self, incoming: ApiRequest) -> Reply:
        """Count it, and answer or refuse it."""
        route, caller = incoming.route, incoming.caller
        docs = "" if route is None else route.docs
        free = route is not None and route.path == "/rate_limit"
        try:
            if not free:
                self._count(incoming)
            if route is None:
                raise not_found()
            by_token = self._github.behaviour.etags_of_tokens
            token = incoming.request.headers.get("Authorization", "") if by_token else ""
            reply = replies.of_answer(self._handle(incoming, route), token)
        except PrimaryLimit as error:
            return self.limited(error, incoming.recorded)
        except ApiError as error:
            return replies.of_error(error, docs)
        except Exception as error:
            self.crashes.append(error)
            return replies.of_error(Refusal(500, f"The emulator itself failed: {error!r}"), docs)
        reply = replies.conditional(reply, incoming.request.headers.get("If-None-Match"))
        if reply.status == 304 and not free:
            self._limits.refund(caller.key)
        return reply

    def limited(self, refusal: PrimaryLimit, recorded: RecordedCall) -> Reply:
        """GraphQL answers 200 beyond its primary limit (github/docs #22607, githubkit #271)."""
        if recorded.resource == "core":
            return replies.of_error(refusal, "")
        kind = self._github.behaviour.graphql_limit_type
        words = refusal.message.replace("exceeded", "already exceeded")
        return replies.of_content(200, {"errors": [{"type": kind, "code": "graphql_rate_limit", "message": words}]})

    def _count(self, incoming: ApiRequest) -> None:
        self._limits.check(
            incoming.caller.key,
            incoming.recorded.template,
            write=incoming.writes,
            creates=incoming.route is not None and incoming.route.creates,
            request_id=request_id(incoming.recorded),
            resource=incoming.resource,
        )

    def _handle(self, incoming: ApiRequest, route: Route) -> Answer:
        request, caller = incoming.request, incoming.caller
        params = dict(request.match_info)
        found = None
        if "{owner}/{repo}" in route.path:
            self._refuse_moved(incoming, params)
            found = find_repository(self._github, caller, params)
        admit(self._github, caller, route, found)
        bare = "labels" if route.path.endswith("/labels") else None
        data = {} if request.method in ("GET", "HEAD") else parse_body(incoming.raw, bare=bare)
        incoming.recorded.body = data
        path = incoming.path_by_id(found) if found is not None and "owner" in params else incoming.recorded.path
        call = Call(
            self._github,
            self._tokens,
            self._limits,
            caller,
            route.access,
            params,
            request.query,
            data,
            incoming.api_url,
            incoming.api_url + path,
            found,
            request.headers.get("Accept", ""),
        )
        kind = None if incoming.writes else kind_of(route)
        if kind == "graphql":
            call.branches = self._lag.part("graphql_branches")
        members = sees_members(caller, found)
        with self._lag.view(kind) as incoming.recorded.lag, self._github.accounts.showing_members(members):
            return route.handler(call)

    def _refuse_moved(self, incoming: ApiRequest, params: dict[str, str]) -> None:
        """Raise Moved if the repository had the name in the path before, and the caller may know of it."""
        if "owner" not in params:
            return
        moved = self._github.paths.found_at(f"{params['owner']}/{params['repo']}")
        if moved is None or not visible(self._github, incoming.caller, moved):
            return
        rest = f"?{incoming.request.query_string}" if incoming.request.query_string else ""
        url = incoming.api_url + incoming.path_by_id(moved) + rest
        raise Moved(url, read=incoming.request.method in {"GET", "HEAD"})


def request_id(recorded: RecordedCall) -> str:
    """The identifier that GitHub gives a request."""
    number = recorded.sequence
    return f"{number:04X}:{number * 7:05X}:{number * 131:07X}:{number * 257:07X}:{int(recorded.at.timestamp()):08X}"
