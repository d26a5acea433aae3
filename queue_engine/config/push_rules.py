"""The keys about pushes to pull requests that are queued."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from queue_engine.config.kinds import ConfigModel, Login, Many


class PushRules(ConfigModel):
    """What IMQ does after somebody pushes to a pull request."""

    queued: Literal["dequeue", "requeue"] | None = Field(
        None, description="Whether a push dequeues a queued pull request, or queues its new head at the end."
    )
    waiting: Literal["bind", "dequeue"] | None = Field(
        None,
        description="Whether a pull request that is not ready yet keeps waiting with a new head, if the pusher may "
        "queue.",
    )
    requeue_for: Many[Login] | None = Field(
        None,
        description="Bots, such as `dependabot[bot]`, whose pushes to their own pull requests never dequeue them.",
    )


def _choice_or_push(value: object) -> object:
    return {"queued": value} if isinstance(value, str) else value


OnPush = Annotated[
    PushRules,
    BeforeValidator(_choice_or_push, json_schema_input_type=Literal["dequeue", "requeue"] | PushRules),
]
