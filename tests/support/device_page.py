"""A person at GitHub's page for codes of devices, in a browser: every step is a form of the page before."""

from html.parser import HTMLParser

import aiohttp


class _Form(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.action, self.fields = "", dict[str, str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "form":
            self.action = str(given["action"])
        if tag == "input" and given.get("type") == "hidden":
            self.fields[str(given["name"])] = str(given["value"])


async def type_code(
    session: aiohttp.ClientSession,
    verification_uri: str,
    user_code: str,
    *,
    person: str | None = None,
    cancel: bool = False,
) -> str:
    """Type the code, and authorize the app or cancel, as this person or the one that the page proposes.

    Returns the last page.
    """
    origin = verification_uri.removesuffix("/login/device")
    async with session.get(verification_uri) as answer:
        form = _Form(await answer.text())
    async with session.post(origin + form.action, data={**form.fields, "user_code": user_code}) as answer:
        text = await answer.text()
        if answer.status != 200:
            return text
        form = _Form(text)
    decision = {**form.fields, **({"cancel": "1"} if cancel else {}), **({"login": person} if person else {})}
    async with session.post(origin + form.action, data=decision) as answer:
        return await answer.text()
