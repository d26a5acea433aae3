"""A repository's configuration, `.github/imq.yml`: parsing, faults, and the policies that it makes. Pure."""
