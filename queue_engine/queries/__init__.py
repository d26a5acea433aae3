"""Read models that comment, API and CLI render: why a pull request waits, and what blocks a queue."""
