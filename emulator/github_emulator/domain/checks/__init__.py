"""Check suites, check runs, commit statuses, and workflow runs of GitHub Actions.

May not live here: the CI systems that report them (`github_emulator.ci`).
"""
