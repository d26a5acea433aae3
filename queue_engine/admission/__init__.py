"""Admit pull requests to queues and dequeue them: enqueue, dequeue, revalidate, capacity. Never merges.

May not live here: the choice of the next action, merges, texts.
"""
