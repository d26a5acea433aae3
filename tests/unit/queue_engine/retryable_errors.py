"""Which of GitHub's errors pass: what the gateway's tests and the engine's go by, so that both mean the same."""

from queue_engine.domain.errors import (
    Forbidden,
    GitHubError,
    GitHubOutage,
    HeadConflict,
    Invalid,
    MergeError,
    NotFound,
    RateLimitError,
    Refused,
    StaleRead,
    Unauthorized,
    Unavailable,
)

PASSES: dict[type[GitHubError], bool] = {
    Unavailable: True,
    GitHubOutage: True,
    StaleRead: True,
    Refused: True,
    RateLimitError: True,
    Unauthorized: False,
    Forbidden: False,
    NotFound: False,
    MergeError: False,
    HeadConflict: False,
    Invalid: False,
    GitHubError: False,
}
"""Network errors, 5xx, 408, limits, and 4xx that GitHub does not explain are retried; never another 4xx."""
