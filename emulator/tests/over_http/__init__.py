"""The emulator as a server: clients call it, and each answer is compared with GitHub's schemas."""

LIMIT = 600.0
"""Seconds after which a test that hangs ends. No test measures time: a machine may be several times slower."""
