"""The ten changes of the demo, and the expected result of each."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from imq_demo import project
from queue_engine.domain.reasons import Reason


@dataclass(frozen=True, slots=True)
class Change:
    """A pull request of the demo. It starts `behind` commits before the tip of the base.

    It must land, unless `reason` says why not. Of two `rivals` one must land, and the other must fail for `reason`.
    `push` is what is pushed to it while it is queued; `closes` that it is closed while queued. `fix` is pushed to it
    while it waits outside the queue, since its check failed before it got its label.
    """

    key: str
    title: str
    files: Mapping[str, str | None]
    behind: int = 0
    reason: Reason | None = None
    rival: str | None = None
    push: Mapping[str, str | None] = field(default_factory=dict)
    fix: Mapping[str, str | None] = field(default_factory=dict)
    closes: bool = False

    @property
    def plain(self) -> bool:
        """Whether the change lands without any incident."""
        return self.reason is None and self.rival is None and not self.push and not self.fix


_CUPS = '''"""Cups."""


def cups(litres: float) -> int:
    """How many cups a pot fills."""
    return int(litres / 0.25)
'''
_RENAMED = {
    path: text.replace("steep", "infuse")
    for path, text in (
        ("teapot/brew.py", project.BREW),
        ("teapot/serve.py", project.SERVE),
        ("tests/test_brew.py", project.TEST_BREW),
    )
}
_LITRE = '''"""Tea for many."""

from teapot.brew import steep


def big_pot(leaves: str) -> str:
    """A litre of it."""
    return steep(leaves, 5, litres=1)
'''
_NO_CONSTANT = project.KETTLE.replace("BOILING = 100\n\n\n", "\n").replace("BOILING", "100")
_TEST_WITHOUT = project.TEST_KETTLE.replace("BOILING, heat", "heat").replace("BOILING", "100")
_POT = '''"""The pot."""


def warm(celsius: int) -> bool:
    """Whether it is warm enough to brew in."""
    return celsius >= 60
'''
_BISCUITS = '''"""Biscuits."""

BISCUITS = ("shortbread", "digestive")
'''


def _offering(tea: str) -> str:
    return project.MENU.replace('"sencha"', f'"sencha", "{tea}"')


CHANGES = (
    Change("pot", "Warm the pot before brewing", {"teapot/pot.py": _POT}),
    Change("kettle", "Describe the kettle", {"docs/kettle.md": "# The kettle\n\nIt heats water.\n"}, behind=3),
    Change("release", "Write down how to release", {"RELEASING.md": "Raise the version, tag, drink tea.\n"}),
    Change("oolong", "Offer oolong", {"teapot/menu.py": _offering("oolong")}, reason=Reason.CONFLICT, rival="rooibos"),
    Change(
        "rooibos", "Offer rooibos", {"teapot/menu.py": _offering("rooibos")}, reason=Reason.CONFLICT, rival="oolong"
    ),
    Change("infuse", "Rename steep to infuse", _RENAMED, reason=Reason.CHECKS_FAILED, rival="litre"),
    Change("litre", "Brew by the litre", {"teapot/litre.py": _LITRE}, reason=Reason.CHECKS_FAILED, rival="infuse"),
    Change(
        "constant",
        "Drop a constant",
        {"teapot/kettle.py": _NO_CONSTANT},
        fix={"tests/test_kettle.py": _TEST_WITHOUT},
    ),
    Change("biscuits", "Serve biscuits", {"teapot/biscuits.py": _BISCUITS}, reason=Reason.CLOSED, closes=True),
    Change("cups", "Count cups", {"teapot/cups.py": _CUPS}, push={"teapot/cups.py": _CUPS.replace("0.25", "0.2")}),
)
"""Two conflict, two pass alone but break together, one starts behind the base. One fails its check before it gets its
label, and waits outside the queue for a fix. One is closed while queued, one gets a push while queued and is queued
again. The others land without incident."""
