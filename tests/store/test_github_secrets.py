"""The one registration, on both databases."""

from queue_engine.store import Transaction
from queue_engine.store.github_tokens import GitHubSecret


async def test_registration_is_one_row(t: Transaction) -> None:
    """The second process finds what the first one created."""
    assert await t.github_secrets.find() is None
    await t.github_secrets.create("nonce-1")
    await t.github_secrets.create("nonce-2")
    assert await t.github_secrets.find() == GitHubSecret("nonce-1", None)


async def test_registration_compares_before_it_changes(t: Transaction) -> None:
    """A used nonce, a former state and a second App change nothing."""
    await t.github_secrets.create("nonce-1")
    assert await t.github_secrets.renew("nonce-1", "nonce-2")
    assert not await t.github_secrets.renew("nonce-1", "nonce-3")
    await t.github_secrets.expect("state-1")
    await t.github_secrets.expect("state-2")
    assert not await t.github_secrets.finish("state-1")
    assert await t.github_secrets.finish("state-2")
    assert await t.github_secrets.save("sealed-1", replace=False)
    assert not await t.github_secrets.save("sealed-2", replace=False)
    assert await t.github_secrets.find() == GitHubSecret("nonce-2", "sealed-1")
    assert await t.github_secrets.save("sealed-2", replace=True)
    assert await t.github_secrets.find() == GitHubSecret("nonce-2", "sealed-2")
