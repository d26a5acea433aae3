"""The shared core: database, jobs, dead letters, idempotency keys, backoff, slots, clocks, traces.

Lives here: what any durable service needs. May not live here: any word of pull requests, queues or GitHub. Time and
randomness are injected. No work sleeps until its next try: a wait is an instant in a row, and the work ends.

What the core promises, and the tests that hold it:

- A job is done once for all that is stored with its end, and at least once for all else, in its process's order
  (`test_campaign.py`, `test_job_store_machine.py`, `test_job_store.py`).
- The job table stays as small and as fast as it was (`test_job_size.py`, `make bench`).
- Of two requests with one key one is done, and both get the same answer (`test_idempotency_machine.py`,
  `test_idempotent.py`).
- Slots are fair; no cancellation loses one, and none is kept for ever (`test_slots_machine.py`, `test_slots.py`).
- What fails for good is kept whole and can be done again once (`test_dead_letters.py`).
- A database's fault has a name, and passes without an operator (`test_outage.py`: PostgreSQL really restarted, a disk
  really full).
- A clock that jumps changes no position, and no wait lasts for ever (`test_clocks.py`, `test_instants.py`,
  `test_clock_changes.py`).
- A delivery is found in the log from the webhook to the merge, and a secret nowhere (`test_traces.py`,
  `test_secrets.py`).
- Figures mean what they say; alerts fire at their thresholds and not below (`test_figures.py`, `test_report.py`,
  `test_alerts.py` with the real promtool).
"""
