"""Entry points of the engine: webhooks, jobs and the reconciler.

May not live here: rules, statements, texts. A handler reads what it needs and calls one room below.
"""
