"""What became of commands, as it is kept."""

from queue_engine.domain.notice import CommandReply, Notice, NoticeKind, Reply, ReplyKind
from queue_engine.store import Store
from queue_engine.store.outbox.items import OutboxKind
from tests.store.examples import LEASE, NOW, REPOSITORY, SOON


def _answer(*commands: str) -> CommandReply:
    replies = [Reply(command=each, accepted=True, code=ReplyKind.PAUSED, facts={"depth": 2}) for each in commands]
    return CommandReply(at=NOW, by="mona", replies=tuple(replies))


async def test_answer_is_found_by_its_comment_and_the_newest_is_shown(store: Store) -> None:
    """A comment's answers last, whatever is said after it; of all of them people read what was answered last."""
    later = _answer("why").model_copy(update={"at": NOW + SOON})
    async with store.transaction() as tx:
        await tx.answers.put(REPOSITORY.id, 3, 70, _answer("pause"))
        assert await tx.answers.find(REPOSITORY.id, 3) == _answer("pause")
        await tx.answers.put(REPOSITORY.id, 3, 71, later)
        await tx.answers.put(REPOSITORY.id, 3, 70, _answer("pause", "resume"))
        assert await tx.answers.find(REPOSITORY.id, 3) == later
        await tx.answers.put(REPOSITORY.id, 3, 69, later.model_copy(update={"at": NOW + 2 * SOON}))
        assert (await tx.answers.find(REPOSITORY.id, 3) or later).at == NOW + 2 * SOON, "an older comment, revived"
        assert await tx.answers.find(REPOSITORY.id, 3, comment_id=70) == _answer("pause", "resume")
        assert await tx.answers.find(REPOSITORY.id, 3, comment_id=72) is None
        assert await tx.answers.find(REPOSITORY.id, 4) is None


async def test_answers_of_long_ago_are_forgotten(store: Store) -> None:
    """The table stays as small as what people said lately."""
    async with store.transaction() as tx:
        await tx.answers.put(REPOSITORY.id, 3, 70, _answer("pause"))
        await tx.answers.put(REPOSITORY.id, 3, 71, _answer("why").model_copy(update={"at": NOW + SOON}))
        assert await tx.answers.purge(NOW) == 0
        assert await tx.answers.purge(NOW + SOON) == 1
        assert await tx.answers.find(REPOSITORY.id, 3, comment_id=70) is None
        assert await tx.answers.find(REPOSITORY.id, 3, comment_id=71) is not None


async def test_item_that_is_wanted_again_goes_out_with_the_notice_that_it_had(store: Store) -> None:
    """An answer changes the comment although nothing about the pull request's place has changed."""
    notice = Notice(kind=NoticeKind.QUEUED, number=3, base_branch="main", head_sha="abc", at=NOW)
    async with store.transaction() as tx:
        assert not await tx.outbox.resend(REPOSITORY.id, 3, due=NOW)
        await tx.outbox.want(OutboxKind.COMMENT, REPOSITORY, 3, due=NOW, notice=notice)
        item = await tx.outbox.claim(owner="w", now=NOW, lease=LEASE)
        assert item is not None
        await tx.outbox.done(item, NOW)
        assert await tx.outbox.resend(REPOSITORY.id, 3, due=NOW + SOON)
        assert await tx.outbox.claim(owner="w", now=NOW, lease=LEASE) is None
        item = await tx.outbox.claim(owner="w", now=NOW + SOON, lease=LEASE)
        assert item is not None
        assert item.notice == notice
