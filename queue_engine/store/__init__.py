"""The queue's persistence: one module per noun, each bound to the connection of one transaction.

Lives here: tables, and the statements that keep P2 (nothing lost) and P3 (order) true on both databases.
May not live here: decisions, GitHub, texts.
"""

from queue_engine.store.errors import DuplicateEntry
from queue_engine.store.store import Due, Store, Transaction

__all__ = ["Due", "DuplicateEntry", "Store", "Transaction"]
