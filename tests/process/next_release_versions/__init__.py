"""Revisions of the release after this one, for `tests.process.next_release`."""
