"""The limit of tests whose processes live in real time."""

LIMIT = 600.0
"""Seconds after which a test that hangs ends. No test measures time: CI may be several times slower."""
