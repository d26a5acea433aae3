"""The schemas that GitHub publishes of its REST API, its webhooks and its GraphQL API, as judges of the emulator.

IMQ's tests hold what they ask and read against the same schemas. May not live here: anything that the emulator says of
itself.
"""
