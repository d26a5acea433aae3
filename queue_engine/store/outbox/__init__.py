"""The outbox: desired comments, check runs and labels, and the replies to commands.

May not live here: the texts of items, and their delivery, which are in `notifications`.
"""
