"""GitHub's GraphQL API: a part of its schema, what its fields resolve to, and how it refuses.

Knows nothing of HTTP: `github_emulator.rest.apps.graphql` serves it.
"""
