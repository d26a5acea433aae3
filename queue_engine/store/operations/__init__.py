"""Tables for the operation of IMQ: tokens, processes, pace, throttles, known facts, sweeps.

May not live here: tables of queues, entries and the outbox; decisions.
"""
