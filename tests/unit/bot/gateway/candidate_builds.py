"""A candidate on a build branch of the emulated GitHub, for tests of the gateway."""

from queue_engine.domain.facts import Commit
from tests.unit.bot.gateway.emulator_place import Place

BUILD, CANDIDATE = "imq-build/main/7", "imq/main/7"
WORKFLOW = ".github/workflows/ci.yml"


async def build(place: Place) -> Commit:
    """A candidate of one member on the build branch."""
    await place.gateway.create_branch(place.repository, BUILD, place.handle.sha("main"))
    built = await place.gateway.merge_into(place.repository, BUILD, place.pull.head_sha, "Merge `one`")
    assert built is not None
    return built


def grant(place: Place, **permissions: str) -> None:
    """Give the App more permissions, as its owner does and the installation's owner accepts."""
    place.app.permissions.update(permissions)
    for installation in place.github.state.installations.values():
        installation.permissions.update(permissions)
