"""Debug logs of calls, traces, meters and progress.

May not live here: figures' names, and where logs go, which `bot` decides.
"""
