"""Tests of `imq replay`."""
