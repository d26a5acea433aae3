"""The keys about how long a pull request waits, beside those of checks."""

from pydantic import Field

from queue_engine.config.kinds import ConfigModel, LongTimeout, Timeout


class WaitLimits(ConfigModel):
    """How long other waits may last."""

    update: Timeout | None = Field(None, description="GitHub's update of a branch, and of whether it can be merged.")
    hold: Timeout | None = Field(None, description="Waiting for room in a full queue, or for a red base to pass.")
    ready: LongTimeout | None = Field(
        None, description="Waiting outside the queue until the pull request is ready (`when_not_ready: wait`)."
    )
    run: Timeout | None = Field(None, description="Starting over because other pushes keep moving the base branch.")
