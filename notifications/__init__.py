"""Comments and check runs for people: the sticky comment, the check run, their texts, and the event bus.

Lives here: rendering and delivering notices. May not live here: decisions about queues, HTTP.
"""
