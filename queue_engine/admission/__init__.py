"""Admit pull requests to queues and dequeue them: enqueue, dequeue, revalidate. Never merges."""
