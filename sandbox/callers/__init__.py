"""Who calls the API: tokens, visible repositories, rate limits, and refusals in GitHub's words.

May not live here: endpoints; `sandbox.rest` and `sandbox.graphql` import this package.
"""
