"""Admit pull requests to queues and dequeue them: enqueue, dequeue, revalidate, capacity. Never merges."""
