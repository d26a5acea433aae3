"""Commands for authors, in the folder of a clone: log in, land, status, why.

They call IMQ's API with the standard library alone, so that they start fast and need no settings of a server.

Lives here: git's remotes, the stored login, texts of a terminal. May not live here: imports of the engine, of settings,
and of libraries beside click; decisions about queues.
"""
