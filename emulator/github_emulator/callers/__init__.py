"""Who calls the API: tokens, visible repositories, rate limits, and refusals in GitHub's words.

May not live here: endpoints; `github_emulator.rest` and `github_emulator.graphql` import this package.
"""
