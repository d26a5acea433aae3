"""Transport to GitHub: connections, tokens, limits, pace, errors.

May not live here: what an endpoint's answer means for a queue.
"""
