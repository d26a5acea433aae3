"""What IMQ costs and how quick it is, measured: `make bench` runs every measure and prints one table.

Lives here: one module per measure, the reference that each is held against in the same run, and the clockwork they
share. May not live here: promises of right behaviour, which are tests, and anything that the product needs to run.
"""
