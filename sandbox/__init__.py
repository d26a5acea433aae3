"""A local GitHub on real git: the ground of the demo, the tests and the benchmarks.

Lives here: one state object, the people who act on it, and the REST endpoints, webhooks and faults that derive
from it. May not live here: anything of IMQ.
"""
