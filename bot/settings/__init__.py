"""The operator's settings, read from the environment and checked."""
