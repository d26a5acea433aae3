"""Passports: signed statements about landings, which everyone can verify with IMQ's public keys alone.

Lives here: what a statement says, its envelope, its verification, and the keys.
May not live here: which landings exist.
"""
