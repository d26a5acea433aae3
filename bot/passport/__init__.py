"""Passports: signed statements about landings, which everyone can verify with IMQ's public keys alone."""
