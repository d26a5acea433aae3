"""The revision that the next release of `next_release` adds."""

from tests.process.next_release import NEXT, PREVIOUS, upgrade

revision = NEXT
down_revision = PREVIOUS

__all__ = ["upgrade"]
