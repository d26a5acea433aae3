"""The key of the App in tests: to make one takes as long as many a test."""

from github_emulator import KeyPair

KEY = KeyPair()
"""Made once in each process of tests."""
