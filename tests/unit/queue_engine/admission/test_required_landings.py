"""Read what a description names, and search for cycles."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from queue_engine.admission.required_landings import landings_before
from queue_engine.domain.facts import LandingState, PullRequest
from tests.unit.queue_engine.examples import REPOSITORY, pull


def depends(number: int, *on: int) -> PullRequest:
    """A pull request that depends on these."""
    return replace(pull(), number=number, body="".join(f"Depends-On: #{each}\n" for each in on))


async def test_limit_of_reads_ends_the_search_for_a_cycle_and_hides_nothing(monkeypatch: Any) -> None:
    """P6: the first one's chain uses all reads up; the last one is open all the same, and not called hidden."""
    chain = {number: depends(number, number + 1) for number in range(10, 60)}
    there, read = chain | {2: depends(2), 3: depends(3, 1)}, list[int]()

    async def pull_request(_repository: object, number: int) -> PullRequest:
        read.append(number)
        return there[number]

    engine = cast(Any, SimpleNamespace(github=SimpleNamespace(pull_request=pull_request)))
    found = await landings_before(engine, REPOSITORY, depends(1, 10, 2, 3), None)
    assert [each.state for each in found] == [LandingState.OPEN, LandingState.OPEN, LandingState.CYCLE]
    assert (len(read), read[-2:]) == (22, [2, 3])
