"""Kept replies come back as they came, within a bound of memory."""

from multidict import CIMultiDict, CIMultiDictProxy

from bot.gateway.http.client import Reply
from bot.gateway.http.connection import CachedReplies, Replies

ANSWER = b'{"number": 3}'


def reply(body: bytes = ANSWER, etag: str | None = '"one"') -> Reply:
    many = {f"X-Header-{number}": "x" * 100 for number in range(30)} | {"Content-Type": "application/json"}
    headers = many if etag is None else {**many, "ETag": etag}
    return Reply(200, CIMultiDictProxy(CIMultiDict(headers)), {"next": "https://api/2"}, body)


def test_reply_comes_back_with_what_is_read_again() -> None:
    """The body, the links, the type of the content and the ETag; not thirty headers."""
    replies = Replies()
    replies.put("a", reply())
    headers = {"content-type": "application/json", "etag": '"one"'}
    assert replies.get("a") == Reply(200, headers, {"next": "https://api/2"}, ANSWER)
    replies.drop("a")
    assert replies.get("a") is None


def test_reply_without_an_etag_is_not_kept() -> None:
    """No request can be conditional on it."""
    replies = Replies()
    replies.put("a", reply(etag=None))
    assert replies.get("a") is None


def test_replies_are_bounded_by_what_they_take_with_all_that_is_kept_of_each() -> None:
    """Many small replies take room, too, and a large one is compressed; the latest remain."""
    replies = Replies(10_000)
    replies.put("large", reply(b" " * 100_000))
    assert replies.get("large") is not None
    for number in range(50):
        replies.put(f"{number}", reply())
    assert sum(replies.get(f"{number}") is not None for number in range(50)) == 9
    assert replies.get("49") is not None


def test_replies_of_all_installations_are_bounded_and_the_latest_used_remain() -> None:
    """However many installations there are; one that has no replies, or only old ones, is forgotten first."""
    replies = CachedReplies(10_000)
    replies.of(0)
    for installation_id in range(1, 4):
        for number in range(3):
            replies.of(installation_id).put(f"{number}", reply())
    assert [replies.of(1).get(f"{number}") is None for number in range(3)] == [False] * 3
    for number in range(3):
        replies.of(4).put(f"{number}", reply())
    kept = {each: sum(replies.of(each).get(f"{number}") is not None for number in range(3)) for each in range(5)}
    assert kept == {0: 0, 1: 3, 2: 0, 3: 3, 4: 3}
