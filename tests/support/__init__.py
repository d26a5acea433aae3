"""What tests of several kinds share: databases, captured data, GitHub's schemas."""
