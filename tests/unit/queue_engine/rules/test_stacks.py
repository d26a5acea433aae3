"""Which pull requests lie above another one."""

import pytest

from queue_engine.rules.stacks import is_stacked_above
from tests.unit.queue_engine.examples import pull


@pytest.mark.parametrize(("stack_base", "above"), [(None, False), ("main", False), ("trunk", True), ("", True)])
def test_pull_request_is_stacked_above_another_unless_it_is_for_the_base_of_the_stack(
    stack_base: str | None, above: bool
) -> None:
    """A stack whose base GitHub does not name may have something below."""
    assert is_stacked_above(pull(stack_base=stack_base)) is above
