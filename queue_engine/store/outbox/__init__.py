"""The outbox: desired comments, check runs and labels, and the replies to commands.

May not live here: what an item says, and its delivery, which are in `notifications`.
"""
