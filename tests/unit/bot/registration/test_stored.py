"""The registration in the database, as several processes use it."""

import pytest
from pydantic import SecretStr

from bot.registration.manifest import Credentials
from bot.registration.stored import StoredCredentials, StoredSecrets, WrongSecretKey
from queue_engine.store import Store
from queue_engine.store.action_records import FIRST
from tests.store.examples import NOW

KEY, OTHER = SecretStr("0c1d2e3f4a5b6c7d8e9f"), SecretStr("another-key-of-IMQ-12345")
APP = Credentials(77, "https://github.com/apps/imq", SecretStr("PEM"), SecretStr("secret"))
NEWER = Credentials(78, "https://github.com/apps/imq-2", SecretStr("PEM 2"), SecretStr("secret 2"))


async def test_credentials_are_found_by_every_process_with_the_key(store: Store) -> None:
    """With another key they are refused in a sentence, not taken for absent."""
    assert await StoredCredentials(store, KEY).load() is None
    assert await StoredCredentials(store, KEY).save(APP, NOW)
    assert await StoredCredentials(store, KEY).load() == APP
    with pytest.raises(WrongSecretKey, match="IMQ_SECRET_KEY is not the key"):
        await StoredCredentials(store, OTHER).load()


async def test_former_key_decrypts_the_credentials_until_they_are_reencrypted(store: Store) -> None:
    """An operator changes the key without another App; then the former key is needed no longer."""
    assert await StoredCredentials(store, KEY).save(APP, NOW)
    changed = StoredCredentials(store, OTHER, KEY)
    assert await changed.load() == APP
    assert await changed.reencrypt()
    assert not await changed.reencrypt()
    assert await StoredCredentials(store, OTHER).load() == APP
    with pytest.raises(WrongSecretKey, match="set IMQ_FORMER_SECRET_KEY to the former key"):
        await StoredCredentials(store, KEY).load()


async def test_wrong_former_key_changes_nothing(store: Store) -> None:
    """It is refused in a sentence, and the credentials stay those of their own key."""
    assert not await StoredCredentials(store, OTHER).reencrypt()
    assert await StoredCredentials(store, KEY).save(APP, NOW)
    with pytest.raises(WrongSecretKey):
        await StoredCredentials(store, OTHER, SecretStr("a-third-key-of-IMQ-67890")).reencrypt()
    assert await StoredCredentials(store, KEY).load() == APP


async def test_credentials_are_replaced_only_on_purpose(store: Store) -> None:
    """Of two registrations that finish together one counts, and is in the audit log."""
    credentials = StoredCredentials(store, KEY)
    assert await credentials.save(APP, NOW)
    assert not await credentials.save(NEWER, NOW)
    assert await credentials.load() == APP
    assert await credentials.save(NEWER, NOW, by="root", via="command_line", replace=True)
    assert await credentials.load() == NEWER
    async with store.reading() as tx:
        done = await tx.actions.page(FIRST, limit=9)
    assert [(each.action, each.by, each.via, each.subject) for each in done] == [
        ("app_registered", None, "page", "77"),
        ("app_registered", "root", "command_line", "78"),
    ]
    assert done[1].data == {"address": NEWER.html_url}


async def test_code_is_the_same_in_all_processes_and_is_used_once(store: Store) -> None:
    """It follows from the key: the database alone does not disclose it."""
    one, two = StoredSecrets(store, KEY), StoredSecrets(store, KEY)
    code = await one.code()
    assert await two.code() == code != await StoredSecrets(store, OTHER).code()
    assert not await one.use_code(code[:-1])
    assert await one.use_code(code)
    assert not await two.use_code(code)
    assert await two.use_code(await one.code())


async def test_state_begun_in_one_process_is_finished_in_another_once(store: Store) -> None:
    """A platform's router sends the browser to any of them."""
    one, two = StoredSecrets(store, KEY), StoredSecrets(store, KEY)
    assert not await two.finish("first")
    await one.begin("first")
    await one.begin("second")
    assert not await two.finish("first")
    assert await two.finish("second")
    assert not await one.finish("second")
