"""`GET /api/v1/doctor` on the whole bot: an operator reads the findings of `imq doctor`."""

import aiohttp

from tests.acceptance.callers import caller
from tests.acceptance.world import World


async def test_operator_reads_the_findings_of_the_running_bot(world: World, session: aiohttp.ClientSession) -> None:
    """The settings of a world are no operator's: its App has more permissions, and its clock another time."""
    world.repository.record.allow_auto_merge = True
    operator = await caller(world, session, None, name="ops", operator=True)
    answer = await operator.ask("GET", "/api/v1/doctor?repository=acme/widgets")
    assert answer.status == 200
    found = {(each["code"], each["subject"]) for each in answer.body["findings"]}
    assert ("auto_merge_enabled", "acme/widgets") in found
    assert "database_unusable" not in {code for code, _ in found}
    assert (await operator.ask("GET", "/api/v1/doctor?repository=acme/unknown")).status == 404
    person = await caller(world, session, "mona")
    assert (await person.ask("GET", "/api/v1/doctor")).status == 403
