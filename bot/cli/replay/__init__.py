"""`imq replay`: simulate merge queues on the history of a clone. `benchmarks.scheduling` compares more policies.

Lives here: policies and their simulation on virtual time, estimates from what was recorded, the report. May not live
here: imports of the settings, the server and the database; any write to the clone.
"""
