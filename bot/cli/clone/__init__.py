"""Commands that prove a clone's history: `imq audit` by git alone, and `imq verify` by IMQ's records.

Lives here: git's plumbing, the judgement of landings, their reports. May not live here: imports of the engine, of the
settings of a server, and of libraries that are slow to import; any write to the clone.
"""
