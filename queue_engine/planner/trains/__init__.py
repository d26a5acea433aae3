"""Plans for trains, runs of several members: pure functions choose which pull requests to test together.

No I/O, no clock and no random choice may stand here: the same log of outcomes gives the same plans.
`benchmarks.scheduling` measures these very functions. Times are seconds of any one clock.
What is stored and sent may not live here.
"""
