"""One process of IMQ: its parts, its loops and its report.

May not live here: decisions about queues, requests to GitHub, texts.
"""
