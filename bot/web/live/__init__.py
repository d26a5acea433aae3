"""Event streams: the feed of the timeline, and the watch of requests."""
