"""The objects that tests, the demo and benchmarks use: one GitHub, and handles by which people act on it.

May not live here: rules of GitHub; those are in `github_emulator.domain`.
"""
