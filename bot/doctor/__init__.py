"""Check an installation of IMQ, and explain each finding with its remedy."""
