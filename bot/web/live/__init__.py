"""Event streams: the feed of the timeline, and the watch of requests.

Lives here: reading on behalf of subscribers, and the streams. May not live here: pages, decisions about queues.
"""
