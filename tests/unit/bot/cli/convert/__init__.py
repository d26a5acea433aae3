"""Tests of `imq convert`."""
