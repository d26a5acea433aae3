"""GitHub's REST API (version 2022-11-28) over one simulated GitHub.

Lives here: the server, access, paging, conditional requests, faults on demand, the record of requests, and packages of
endpoints. May not live here: what GitHub *is* (git, rules, webhooks, JSON shapes); the packages below know nothing of
HTTP servers.
"""
