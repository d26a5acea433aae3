"""Shadow mode: what IMQ would do with the pull requests of a repository in which it writes nothing.

Lives here: the switch between modes, judging by the rules and decisions of queues, judging merges of other people, and
the report. May not live here: a rule or decision of its own about pull requests, an entry of a queue, or a write.
"""
