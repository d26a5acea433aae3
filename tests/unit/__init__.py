"""Tests of one module each, in the packages' own layout."""
