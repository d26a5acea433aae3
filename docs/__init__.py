"""The documents beside the README, and `generate`, which writes those parts of them that the code knows best."""
