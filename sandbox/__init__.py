"""A local GitHub on real git, for the demo, the tests and the benchmarks.

The packages form layers, lowest first: `core`, `state`, `events`, `domain`, `payloads`, `webhooks` beside `ci`,
`facade`, `callers`, `graphql` beside `website`, `rest`. Each imports only what stands below it, and a contract of the
import linter allows no circle. May not live here: anything of IMQ.
"""
