"""Tests of the files for hosting platforms, and of IMQ as it is installed there."""
