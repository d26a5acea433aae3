"""Pages, API and `/why` give one answer, and the answer about a past moment is the one that was given then."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest

from bot.web.pages import wording
from queue_engine.domain.model import EntryStatus
from queue_engine.queries.pull_request_history import StatusHistory, load_status_at
from queue_engine.queries.pull_request_status import PullRequestStatus, load_pull_request
from tests.acceptance.callers import Caller, path_of
from tests.acceptance.page_readers import PageReader, reader
from tests.acceptance.world import CI_TIME, LABEL, World

QUEUE = "/repositories/acme/widgets/branches/main"
MINUTE = timedelta(minutes=1)


@dataclass
class Moment:
    """What a pull request waited for when nothing happened any more."""

    at: datetime
    status: PullRequestStatus


async def statuses(world: World, pulls: list[Any]) -> list[PullRequestStatus]:
    """The state of each pull request, as all readers load it."""
    repository = pulls[0].record.repository.id
    engine = world.bot.engine
    async with engine.store.reading() as tx:
        [queue] = await tx.queues.all() or [None]
    policies = {} if queue is None else {"main": await engine.policies.of(queue.repository, "main")}
    async with engine.store.reading() as tx:
        return [await load_pull_request(tx, repository, p.number, policies, engine.clock.now()) for p in pulls]


def as_people_read(status: PullRequestStatus | StatusHistory) -> dict[str, Any]:
    """The facts that the timeline has, too."""
    if isinstance(status, StatusHistory):
        entry = {
            "position": status.position,
            "since": status.since,
            "enqueued_at": status.enqueued_at,
            "queued_by": status.queued_by,
            "blockers": [(each.reason, each.detail, each.until) for each in status.blockers],
        }
    elif status.entry is None:
        entry = {}
    else:
        view = status.entry
        entry = {
            "position": view.entry.position,
            "since": view.entry.status_since,
            "enqueued_at": view.entry.enqueued_at,
            "queued_by": view.entry.queued_by,
            "blockers": [(each.reason, each.detail, each.until) for each in view.blockers],
        }
    shown = {
        "state": status.state,
        "reason": status.reason,
        "whose_move": status.whose_move,
        "branch": status.base_branch,
    }
    return {**shown, **(entry if status.state in {"pending", "updating", "checking", "ready"} else {})}


async def compare(world: World, mona: Caller, pages: PageReader, pull: Any, status: PullRequestStatus) -> None:
    """One answer by API and page."""
    answer = (await mona.ask("GET", path_of(pull))).body
    page = await pages.get(f"/repositories/acme/widgets/pulls/{pull.number}")
    if page.status == 404:
        assert answer["reason"] == "never_queued"
        return
    shown = plain(page.text)
    assert f"State {wording.state_text(status)}" in shown
    assert f"({answer['reason']})" in shown
    assert plain(answer["sentence"]) in shown
    assert plain(answer["next"]["sentence"]) in shown
    assert wording.ACTORS[answer["whose_move"]] in shown
    assert (answer["state"], answer["reason"]) == (status.state, status.reason.value)
    if answer["entry"] is not None:
        assert f"Position {answer['entry']['position'] + 1} of {answer['depth']}" in shown
        for halt in answer["entry"]["blockers"]:
            assert halt["detail"] in shown


def plain(sentence: str) -> str:
    """A sentence as a browser shows it, code without its marks."""
    return " ".join(sentence.replace("`", " ").split()).replace(" .", ".").replace(" ,", ",")


@pytest.mark.parametrize(
    "seed", [1, pytest.param(2, marks=pytest.mark.thorough), pytest.param(3, marks=pytest.mark.thorough)]
)
async def test_page_api_and_why_agree_and_past_answers_do_not_change(world: World, mona: Caller, seed: int) -> None:
    """Whatever people do meanwhile: label, unlabel, push, pause, freeze, resume, jump."""
    random = Random(seed)
    pulls = [await world.behind("first"), *(world.open(f"pull-{number}") for number in range(3))]
    await world.pass_time(CI_TIME * 2)
    moments: list[list[Moment]] = []
    compared = 0
    async with reader(world, "rhea") as rhea:
        for step in range(14):
            await act(world, rhea, random, pulls, step)
            await world.pass_time(MINUTE * random.randint(0, 2) + timedelta(seconds=5))
            now = world.clock.now()
            found = await statuses(world, pulls)
            moments.append([Moment(now, status) for status in found])
            chosen = random.randrange(len(pulls))
            await compare(world, mona, rhea, pulls[chosen], found[chosen])
            await world.pass_time(timedelta(seconds=5))
        for pull, *known in zip(pulls, *moments, strict=True):
            for moment in known:
                async with world.bot.engine.store.reading() as tx:
                    past = await load_status_at(tx, pull.record.repository.id, pull.number, moment.at)
                assert as_people_read(past) == as_people_read(moment.status), f"#{pull.number} at {moment.at}"
                entry = moment.status.entry
                if entry is not None and entry.entry.status is EntryStatus.CHECKING:
                    # A check that never started before its test ended is in no event.
                    assert set(past.pending_checks) <= set(entry.pending_checks), f"#{pull.number} at {moment.at}"
                    compared += bool(past.pending_checks)
                else:
                    assert past.pending_checks == ()
        assert compared > 0
        last = moments[5][0]
        page = await rhea.get(f"/repositories/acme/widgets/pulls/{pulls[0].number}?at={last.at:%Y-%m-%dT%H:%M:%S}")
        answered = page.text.partition("At 20")[2].partition("At another moment")[0]
        assert f"({last.status.reason.value}) Next" in answered
        later = world.clock.now() + MINUTE
        page = await rhea.get(f"/repositories/acme/widgets/pulls/{pulls[0].number}?at={later:%Y-%m-%dT%H:%M:%S}")
        assert page.status == 400
        assert "future" in page.text, "nothing is known about it"


async def act(world: World, rhea: PageReader, random: Random, pulls: list[Any], step: int) -> None:
    """One act of a person; the first four label."""
    pull = pulls[step] if step < len(pulls) else random.choice(pulls)
    if step < len(pulls):
        pull.label(LABEL, by="mona")
        return
    address = f"/repositories/acme/widgets/pulls/{pull.number}"
    match random.choice(["unlabel", "label", "pause", "freeze", "resume", "jump", "wait", "push"]):
        case "unlabel" if not pull.merged:
            pull.unlabel(LABEL, by="mona")
        case "label" if not pull.merged:
            pull.label(LABEL, by="mona")
        case "pause":
            await rhea.post(f"{QUEUE}/pause", reason="a test")
        case "freeze":
            await rhea.post(f"{QUEUE}/freeze", until="3min", reason="a fair")
        case "resume":
            await rhea.post(f"{QUEUE}/resume")
        case "jump":
            await rhea.post(f"{address}/priority", priority="high")
        case "push" if not pull.merged:
            pull.push({f"more-{step}.py": "more\n"}, by="mona")
        case _:
            await world.pass_time(CI_TIME)
