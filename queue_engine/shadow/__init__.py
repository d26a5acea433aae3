"""Shadow mode: what IMQ would do with the pull requests of a repository in which it writes nothing."""
