"""Comments and check runs for people: the sticky comment, the check run, their texts, and the event bus."""
