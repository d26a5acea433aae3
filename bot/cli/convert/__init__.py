"""`imq convert`: another queue's configuration becomes IMQ's, with a report of every value.

Lives here: what each product's keys mean, and which keys or rules of GitHub have it. May not live here: connections to
GitHub, the database, a server's settings.
"""
