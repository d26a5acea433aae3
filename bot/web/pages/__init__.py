"""The pages for people: Overview, queues, pull requests, requests and statistics."""
