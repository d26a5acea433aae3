"""Classify GitHub's refusals as errors of `queue_engine.domain.errors`, in one place.

A refusal is no rule by its status alone. 403 comes for whole minutes from an allow list of addresses
(microsoft/PullRequestQuantifier #118, aquasecurity/trivy #10567), from single sign-on, and for a fresh token
(octokit/auth-app.js #589); 400, 404 and 422 come from proxies too. A 403 is a missing permission only if the token
lacks what the header `x-accepted-github-permissions` demands (GitHub's changelog of 2023-08-10), and a rule only if
GitHub's message names one. Anything else is `Refused`: wait.
"""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from queue_engine.domain.errors import (
    Disorder,
    Forbidden,
    GitHubError,
    HeadConflict,
    Invalid,
    MergeError,
    NotFound,
    RateLimitError,
    Refused,
    Unauthorized,
    Unavailable,
)

_LONGEST_MESSAGE = 1000
_DEFAULT_WAIT = timedelta(minutes=1)
"""GitHub's documented first wait for a secondary limit that names none."""

_LONGEST_WAIT = timedelta(hours=2)
"""The longest wait that IMQ believes: GitHub's windows last an hour, and clocks differ."""

_DIGITS = re.compile(r"[0-9]{1,11}")
"""Seconds, as far as an instant can lie ahead."""

_LIMIT_MESSAGES = ("rate limit", "abuse detection", "blocked from content creation")
_TOO_QUICK = "submitted too quickly"
"""GitHub's words for content that was created too quickly (cli/cli #4801)."""
_ABUSE = "abuse"
"""The code of such an error, as 422 with requests remaining and no header (octokit/plugin-throttling.js #775)."""
_QUOTE = re.compile(r"""[`"\n]|(?<![a-z])'|'(?![a-z])""", re.IGNORECASE)
"""What follows the first of these may be the text of others, such as the name of a workflow's file.

An apostrophe within a word, as in "You're not authorized to push", is none.
"""

_NOT_GRANTED = "not accessible by integration"
"""GitHub's message for an App without a permission; a header of the response names sufficient ones."""

_DISORDERS: Mapping[str, Disorder] = {
    "was archived so is read-only": Disorder.ARCHIVED,
    "installation has been suspended": Disorder.SUSPENDED,
    "suspended your access": Disorder.SUSPENDED,
    "appear to have the correct authorization credentials": Disorder.NOT_ALLOWED_ADDRESS,
    "saml": Disorder.SINGLE_SIGN_ON,
    "repository access blocked": Disorder.BLOCKED,
    "account was suspended": Disorder.BLOCKED,
    "billing issue": Disorder.BLOCKED,
}
"""GitHub's words for an installation or a repository that it refuses as a whole (archived: r-universe-org/help #247).

A token is refused to a suspended installation in other words (hcengineering/platform #7639) than a call with a token
that it has (octokit.rb's `lib/octokit/error.rb`). Blocked: PyGithub #1015, caarlos0/fork-cleaner #99; with 451:
github/rest-api-description #3314, ossf/allstar #36. Accounts: octokit.rb #761, sourcegraph #16638; unpaid: octokit.rb
#1115, which has no second source. Unpaid private repositories may also be 404 (huboard/huboard #652), as if they were
gone. The others: above; what names an allow list follows the quoted name of an organization, as a file's name might.
GraphQL uses the same words (vscode-remote-repositories-github #491, aquaproj/user-list #2101).
"""
_RULES = (
    "update workflow",  # peter-evans/create-pull-request #1713, repo-sync/github-sync #23
    "merging stacked prs",  # chdsbd/kodiak #923, theBGuy/GitDesktop #142
    "part of a stack",  # lararosekelley/git-stk #306, microsoft/vscode-pull-request-github #8912
    "not authorized to push",  # pascalgn/automerge-action #3, natcap/invest #2342
    "protected branch",  # desktop/dugite #138, weaveworks/wksctl #36
    "repository rule",  # satisfactory-factories/application #67, DSACMS/repo-scaffolder #342
    "upgrade to github",  # iterative/cml #1229, SoftEtherApp/SoftEther-Web #37
    "is locked",  # probot/stale #25, renovatebot/renovate #6215
    "already running",  # metabase/metabase #70916, appsmithorg/appsmith #37197
    "cannot be retried",  # metabase/metabase #70916, microsoft/vscode-azurestaticwebapps #279 ("rerun")
    "unable to retry",  # cli/cli #9989, cli/cli #3333
    "do not have permission to create labels",  # Songmu/tagpr #194, actions/labeler #867
)
"""GitHub's words, in lower case, in 403 answers that would repeat: a rule, a plan, a locked conversation. Each has two
sources; any other refusal is unknown, and no fault of anyone. `already running` ends a rerun, and not the entry."""

_OF_COMMITS = "no commit found"
"""GitHub's words, with 422, for a commit that it does not have (homu #141): the one 422 that is an answer to a read."""

_LEVELS = ("read", "write", "admin")

_CLASSES: Mapping[int, type[GitHubError]] = {
    401: Unauthorized,
    404: NotFound,
    405: MergeError,
    409: HeadConflict,
    410: NotFound,
    422: Invalid,
}


def refusal(
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    now: datetime,
    *,
    conflicts: bool = True,
    reads: bool = False,
    granted: Mapping[str, str] | None = None,
) -> GitHubError:
    """Return the error for a response; `headers` are looked up in lower case.

    `conflicts`: GitHub documents 405 or 409 for the request. `reads`: it has no content that 422 could be about.
    `granted` has the permissions of the token that signed it; None if another credential did, whose rights GitHub knows
    best.

    Limits come as 403 or 429, with and without headers that say how long to wait (GitHub's "Rate limits for the REST
    API"), and as 422 for content; redirects of writes are not followed and are passing: the rename's webhook brings the
    new name.
    """
    answer = _answer(body)
    message = _message(status, answer)
    if _is_limit(status, headers, answer):
        return RateLimitError(message, retry_after=requested_wait(headers, now) or _DEFAULT_WAIT, status=status)
    if status >= 500 or status < 400 or status == 408:
        return Unavailable(message, status=status)
    if status in (403, 451) and (disorder := disorder_of(message)) is not None:
        return Refused(message, status=status, disorder=disorder)
    if status == 403:
        return _forbidden(message, headers.get("x-accepted-github-permissions"), granted)
    unexplained = message == "Validation Failed" or "message" not in answer
    unexplained |= reads and status == 422 and not message.lower().startswith(_OF_COMMITS)
    if unexplained or status not in _CLASSES or (status in (405, 409) and not conflicts):
        return Refused(message, status=status)
    return _CLASSES[status](message, status=status)


def _forbidden(message: str, needed: str | None, granted: Mapping[str, str] | None) -> GitHubError:
    """Return the error for a 403: what would repeat is Forbidden."""
    words = _unquoted(message)
    lacks = needed is not None and granted is not None and not _suffices(granted, needed)
    if needed and _NOT_GRANTED in words:
        message = f"{message} (needs {needed})"
    if any(phrase in words for phrase in _RULES):
        return Forbidden(message, status=403)
    if granted is None or lacks:
        return Forbidden(message, status=403, lacking=lacks)
    return Refused(message, status=403)


def disorder_of(message: str) -> Disorder | None:
    """Return why GitHub refuses an installation or a repository as a whole, by its words; None if it does not."""
    words = _unquoted(message)
    return next((each for phrase, each in _DISORDERS.items() if phrase in words), None)


def _suffices(granted: Mapping[str, str], needed: str) -> bool:
    """Whether permissions contain a set of those that a header lists: `contents=write,issues=read; packages=write`."""
    sets = [[pair.strip().partition("=") for pair in each.split(",")] for each in needed.split(";")]
    return any(all(_has(granted, name, level) for name, _, level in each) for each in sets)


def _has(granted: Mapping[str, str], name: str, level: str) -> bool:
    if name == "metadata":  # Every App may read it.
        return True
    return level in _LEVELS and granted.get(name) in _LEVELS[_LEVELS.index(level) :]


def requested_wait(headers: Mapping[str, str], now: datetime) -> timedelta | None:
    """Return how long GitHub asks to wait: `retry-after`, else until `x-ratelimit-reset` when none remain; or None."""
    asked = headers.get("retry-after", "").strip()
    if _DIGITS.fullmatch(asked):
        return min(timedelta(seconds=int(asked)), _LONGEST_WAIT)
    if asked:
        return _bounded_wait(_http_date(asked), now)
    if headers.get("x-ratelimit-remaining") == "0":
        with suppress(KeyError, ValueError):
            return _bounded_wait(reset_of(headers, now), now)
    return None


def reset_of(headers: Mapping[str, str], now: datetime) -> datetime:
    """Return when the limit is renewed, at most two hours ahead. Raises KeyError or ValueError without a header."""
    text = headers["x-ratelimit-reset"]
    if not _DIGITS.fullmatch(text):
        raise ValueError("no number of seconds")
    return min(datetime.fromtimestamp(int(text), UTC), now + _LONGEST_WAIT)


def _bounded_wait(instant: datetime | None, now: datetime) -> timedelta | None:
    return None if instant is None else min(max(instant - now, timedelta(seconds=1)), _LONGEST_WAIT)


def _http_date(text: str) -> datetime | None:
    try:
        parsed = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def _is_limit(status: int, headers: Mapping[str, str], answer: Mapping[str, Any]) -> bool:
    if status == 422:
        return any(_is_too_quick(error) for error in _errors(answer))
    if status != 403:
        return status == 429
    # Secondary limits have requests remaining and may come without any header, only with a message.
    message = _unquoted(answer.get("message"))
    return (
        "retry-after" in headers
        or headers.get("x-ratelimit-remaining") == "0"
        or any(words in message for words in _LIMIT_MESSAGES)
    )


def _is_too_quick(error: Any) -> bool:
    if not isinstance(error, dict):
        return _TOO_QUICK in _unquoted(error)
    return error.get("code") == _ABUSE or _TOO_QUICK in _unquoted(error.get("message"))


def _unquoted(text: Any) -> str:
    """Return the unquoted part of GitHub's message, in lower case: the name of a file must not match a limit."""
    return _QUOTE.split(str(text), maxsplit=1)[0].lower()


def _answer(body: bytes) -> Mapping[str, Any]:
    """GitHub's answer; empty where it is none: a proxy's HTML says nothing to anybody."""
    try:
        answer = json.loads(body)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _message(status: int, answer: Mapping[str, Any]) -> str:
    """Return GitHub's message with the details of every error."""
    message = str(answer.get("message") or f"GitHub answered {status}")
    return ": ".join(filter(None, (message, "; ".join(map(_detail, _errors(answer))))))[:_LONGEST_MESSAGE]


def _errors(answer: Mapping[str, Any]) -> Sequence[Any]:
    errors = answer.get("errors") or []
    return errors if isinstance(errors, list) else [errors]


def _detail(error: Any) -> str:
    if not isinstance(error, dict):
        return str(error)
    named = " ".join(str(error[key]) for key in ("resource", "field", "code") if error.get(key))
    return str(error.get("message") or named)
