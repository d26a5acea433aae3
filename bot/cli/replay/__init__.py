"""`imq replay`: simulate merge queues on the history of a clone. `benchmarks.scheduling` compares more policies."""
