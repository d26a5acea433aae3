"""Commands of `imq` that work on the database beside the running processes, a module for each group."""
