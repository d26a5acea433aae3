"""How the emulator's CI judges a tree."""

from collections.abc import Mapping, Sequence

from github_emulator.ci.workflows import Judge
from github_emulator.core.randomness import Randomness


def conclude(
    randomness: Randomness,
    files: Mapping[str, str],
    *,
    purpose: str,
    attempt: int,
    plan: Sequence[str],
    judge: Judge,
    flaky: float,
) -> tuple[str, str]:
    """The conclusion of an attempt and the sentence for it.

    `plan` has the conclusions of the first attempts; later ones are judged. `purpose` seeds the randomness of a flake.
    """
    if attempt <= len(plan):
        planned = plan[attempt - 1]
        return planned, f"Planned: {planned}"
    if not judge(files):
        return "failure", "Some tests failed"
    if randomness.of(purpose).random() < flaky:
        return "failure", "A test failed that passes elsewhere"
    return "success", "All tests passed"
