"""The sandbox's HTTP face: GitHub's REST API (version 2022-11-28) over the sandbox's state.

Lives here: the server, authentication, paging, conditional requests, limits, faults on demand, the record of
requests, and one module per noun with its endpoints. May not live here: what GitHub *is* (git, people, rules,
webhooks, JSON shapes); that is the world in `sandbox`, which knows nothing of HTTP servers.
"""
