"""Which of GitHub's errors pass: what the gateway's tests and the engine's go by, so that both mean the same."""

from queue_engine.errors import (
    Forbidden,
    GitHubError,
    HeadMoved,
    Invalid,
    NotFound,
    NotMergeable,
    OutdatedRead,
    RateLimited,
    Unauthorized,
    Unavailable,
)

PASSES: dict[type[GitHubError], bool] = {
    Unavailable: True,
    OutdatedRead: True,
    RateLimited: True,
    Unauthorized: False,
    Forbidden: False,
    NotFound: False,
    NotMergeable: False,
    HeadMoved: False,
    Invalid: False,
    GitHubError: False,
}
"""Network errors, 5xx, 408, 429 and secondary limits are retried; never another 4xx."""
