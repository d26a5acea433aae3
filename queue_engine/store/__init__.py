"""Tables and statements of the queue: one module per noun, bound to the connection of one transaction.

Lives here: tables, and the statements that keep P2 (nothing lost) and P3 (order) true on both databases.
May not live here: decisions, GitHub, texts.
"""

from queue_engine.domain.errors import EntryConflict
from queue_engine.store.store import Store, Transaction, WakeupKind

__all__ = ["WakeupKind", "EntryConflict", "Store", "Transaction"]
