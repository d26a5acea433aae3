"""GitHub's storage of artifacts, another service than its API: an address is signed, and no token is wanted.

A download with an `Authorization` header is refused (octocrab #562, cloudflare/workers-sdk #4816).
"""

from hashlib import sha256

from aiohttp import web

from github_emulator.facade.github import GitHub
from github_emulator.state import Artifact


class Storage:
    """Serves the archives of workflow runs."""

    def __init__(self, github: GitHub) -> None:
        self._github = github

    def routes(self) -> list[web.RouteDef]:
        """The storage's addresses."""
        return [web.get("/storage/{repository}/{artifact}", self._download)]

    async def _download(self, request: web.Request) -> web.Response:
        if "Authorization" in request.headers:
            return web.Response(status=403, text="<Error><Code>AuthenticationFailed</Code></Error>")
        asked = request.match_info
        repositories = self._github.state.repositories.values()
        named = [each for each in repositories if str(each.id) == asked["repository"]]
        runs = [run for each in named for run in each.workflow_runs.values()]
        for each in (artifact for run in runs for artifact in run.artifacts):
            if str(each.id) == asked["artifact"] and request.query.get("sig") == signature(each):
                return web.Response(body=each.content, content_type="application/zip")
        return web.Response(status=404)


def signature(artifact: Artifact) -> str:
    """What an address has to name."""
    return sha256(f"{artifact.id} {artifact.name}".encode()).hexdigest()[:16]
