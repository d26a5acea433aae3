"""The reference: a merge bot that polls, rebuilt from the rule that Kodiak documents.

A queue per base branch; its front is evaluated every three seconds: the pull request, the branch's protection, the
check runs and the statuses are read; when it is behind it is updated, when it is green it is merged, and each
evaluation creates a check run of its own. After each merge every open pull request is read again (Kodiak issue 248).
Where the rule leaves room it is read in the poller's favour: the reads of one evaluation run side by side and count as
one request, as one GraphQL query would; tokens, comments and configuration files cost it nothing.
"""

import asyncio
from collections import deque
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self

import aiohttp

from benchmarks.stage import Stage

INTERVAL = timedelta(seconds=3)
_TOKEN_LIFE = timedelta(minutes=50)
_PASSING = frozenset({"success", "neutral", "skipped"})


class Poller:
    """Merges what is queued, by polling. `requests` counts what GitHub would count."""

    def __init__(self, stage: Stage) -> None:
        self.requests = 0
        self._stage = stage
        self._session = aiohttp.ClientSession()
        self._queues: dict[str, deque[int]] = {}
        self._due: dict[str, datetime] = {}
        self._token = ""
        self._token_ends = stage.github.clock.now()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    def queue(self, number: int, base: str) -> None:
        """Add a pull request to its branch's queue; the front of an empty queue is polled at once."""
        queue = self._queues.setdefault(base, deque())
        if not queue:
            self._due[base] = self._stage.github.clock.now()
        queue.append(number)

    async def run_due(self) -> bool:
        """Evaluate the front of every queue that is due. Return whether any was."""
        now = self._stage.github.clock.now()
        due = [base for base, at in self._due.items() if at <= now]
        await asyncio.gather(*(self._evaluate(base) for base in due))
        return bool(due)

    async def next_due(self) -> datetime | None:
        """Return when the next queue is due."""
        return min(self._due.values(), default=None)

    async def _evaluate(self, base: str) -> None:
        number = self._queues[base][0]
        pull, contexts, reports = await self._read(number, base)
        await self._report(pull["head"]["sha"])
        if pull["mergeable_state"] == "behind":
            await self._write("PUT", f"/pulls/{number}/update-branch", {"expected_head_sha": pull["head"]["sha"]})
        elif pull["mergeable"] and all(reports.get(context) == "passed" for context in contexts):
            status = await self._write("PUT", f"/pulls/{number}/merge", {"sha": pull["head"]["sha"]})
            if status == 200:
                await self._merged(base)
                return
        self._due[base] = self._stage.github.clock.now() + INTERVAL

    async def _merged(self, base: str) -> None:
        queue = self._queues[base]
        queue.popleft()
        del self._due[base]
        if queue:
            self._due[base] = self._stage.github.clock.now()
        open_pulls = await self._get(f"/pulls?state=open&base={base}&per_page=100")
        self.requests += 1
        for pull in open_pulls:
            if pull["number"] not in queue:
                await self._get(f"/pulls/{pull['number']}")
                self.requests += 1

    async def _read(self, number: int, base: str) -> tuple[dict[str, Any], list[str], dict[str, str]]:
        """Read the pull request, the required contexts, and the state of each context."""
        # One GraphQL query would need no head.
        head = f"/commits/{self._stage.repository.pull(number).head_sha}"
        pull, branch, runs, combined = await asyncio.gather(
            self._get(f"/pulls/{number}"),
            self._get(f"/branches/{base}"),
            self._get(f"{head}/check-runs"),
            self._get(f"{head}/status"),
        )
        self.requests += 1
        contexts = branch["protection"]["required_status_checks"]["contexts"]
        reports = {run["name"]: "passed" for run in runs["check_runs"] if run["conclusion"] in _PASSING}
        reports |= {each["context"]: "passed" for each in combined["statuses"] if each["state"] == "success"}
        return pull, contexts, reports

    async def _report(self, sha: str) -> None:
        body = {"name": "poller: status", "head_sha": sha, "status": "in_progress"}
        await self._write("POST", "/check-runs", body)

    async def _get(self, path: str) -> Any:
        async with self._session.get(self._url(path), headers=self._headers()) as answer:
            assert answer.status == 200, f"{path}: {answer.status} {await answer.text()}"
            return await answer.json()

    async def _write(self, method: str, path: str, body: dict[str, str]) -> int:
        self.requests += 1
        async with self._session.request(method, self._url(path), json=body, headers=self._headers()) as answer:
            await answer.read()
            return answer.status

    def _url(self, path: str) -> str:
        return f"{self._stage.server.url}/repos/{self._stage.repository.full_name}{path}"

    def _headers(self) -> dict[str, str]:
        now, installation = self._stage.github.clock.now(), self._stage.installation
        if now >= self._token_ends:
            self._token = self._stage.server.tokens.issue(installation, installation.permissions, None).text
            self._token_ends = now + _TOKEN_LIFE
        return {"Authorization": f"Bearer {self._token}", "User-Agent": "poller"}
