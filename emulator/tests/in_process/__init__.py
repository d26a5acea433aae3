"""The emulator in the test's own process: people act by its handles."""

LIMIT = 600.0
"""Seconds after which a test that hangs ends. No test measures time: a machine may be several times slower."""
