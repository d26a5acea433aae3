"""How old a read's answer may be, by what is read.

GitHub sends webhooks before its API shows what they tell, and its replicas differ: two reads in a row may show the
new state and then the old one again. (palantir/policy-bot #47, tanium/octobot #75, python/the-knights-who-say-ni #86;
for fresh tokens octokit/auth-app.js #65.) Answers to writes, their preconditions, and webhooks are never old.

Parts of one answer differ in age too: GitHub keeps pull requests in MySQL and branches in Spokes, each with replicas
(github.blog, "Stretching Spokes"). Seen are `headRefOid` older than its branch (strands-labs/robots #2538),
`baseRefOid` older than the base (EveryInc/compound-engineering-plugin #1347), and commits that lack a new head
(policy-bot #78).
"""

import random
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from functools import partial
from typing import Literal, get_args

from github_emulator.facade.github import GitHub
from github_emulator.rest.routing import REPOSITORY, Route

ReadKind = Literal[
    "pull_request",  # pull requests and issues, single and listed, with labels and events
    "reviews",
    "comments",
    "compare",
    "branch",  # branches with their history, references, commits and trees
    "checks",  # check runs, check suites, workflow runs
    "statuses",
    "permission",
    "contents",
    "rules",  # branch protection and rulesets
    "repository",  # the repository itself, and what has no kind of its own
    "graphql",
    "graphql_branches",  # branches and commits within a GraphQL answer; as old as the rest of it until this is set
    "token",  # an installation's token that was just issued: 401
]
READ_KINDS: tuple[ReadKind, ...] = get_args(ReadKind)

_NONE = timedelta(0)
# The first that fits counts.
_KINDS_OF_PATHS: tuple[tuple[ReadKind, re.Pattern[str]], ...] = (
    ("reviews", re.compile(r"/pulls/\{number\}/(reviews|comments)")),
    ("comments", re.compile(r"/issues/(\{number\}/)?comments")),
    ("pull_request", re.compile(r"/(pulls|issues)")),
    ("compare", re.compile("/compare")),
    ("checks", re.compile(r"/(commits/\{ref\}/check-|check-|actions/)")),
    ("statuses", re.compile(r"/commits/\{ref\}/status")),
    ("rules", re.compile(r"/(rules|branches/\{branch\}/protection)")),
    ("branch", re.compile("/(activity|branches|git/|commits)")),
    ("permission", re.compile("/collaborators")),
    ("contents", re.compile("/contents")),
    ("repository", re.compile("")),
)


def kind_of(route: Route) -> ReadKind | None:
    """What a route reads; None for a write, and for what lies outside of repositories."""
    if route.resource == "graphql":
        return "graphql"
    if route.method not in ("GET", "HEAD") or not route.path.startswith(REPOSITORY):
        return None
    path = route.path.removeprefix(REPOSITORY)
    return next(kind for kind, pattern in _KINDS_OF_PATHS if pattern.match(path))


class Lag:
    """How long ago the state was that each kind of read shows: no time at all until something else is set."""

    def __init__(self, github: GitHub, *, seed: int = 0) -> None:
        self._github = github
        self._random = random.Random(seed)
        self._spans: dict[ReadKind, tuple[timedelta, timedelta]] = {}

    def set(self, lag: timedelta, *kinds: ReadKind) -> None:
        """Make these kinds of reads (all by default) lag by exactly this much; zero makes them current."""
        self.between(lag, lag, *kinds)

    def between(self, least: timedelta, most: timedelta, *kinds: ReadKind, seed: int | None = None) -> None:
        """Make these kinds of reads (all by default) lag by chance, drawn for each request, as replicas do."""
        if seed is not None:
            self._random = random.Random(seed)
        for kind in kinds or READ_KINDS:
            self._spans[kind] = (least, most)
        if longest := max((most for _, most in self._spans.values()), default=_NONE):
            self._github.history.start(longest)
        else:
            self._github.history.stop()

    def draw(self, kind: ReadKind) -> timedelta:
        """How much the next read of this kind lags."""
        least, most = self._spans.get(kind, (_NONE, _NONE))
        return least if least == most else least + (most - least) * self._random.random()

    @contextmanager
    def view(self, kind: ReadKind | None) -> Iterator[timedelta]:
        """Show records as a read of this kind sees them; yields by how much it lags."""
        lag = _NONE if kind is None else self.draw(kind)
        if not lag:
            yield lag
            return
        with self._github.history.as_of(self._github.clock.now() - lag):
            yield lag

    def part(self, kind: ReadKind) -> Callable[[], AbstractContextManager[None]]:
        """What shows a part of one answer as old as its own kind, by one draw; if no lag is set, as the rest of it."""
        if kind not in self._spans:
            return nullcontext
        lag = self.draw(kind)
        return partial(self._github.history.as_of, self._github.clock.now() - lag if lag else None)
