"""The merge queue: entries, decisions, landing and persistence. It calls GitHub through `domain/port.py`."""
