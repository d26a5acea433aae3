"""Build the parts of a process that send messages to sinks."""

from collections.abc import Callable

from bot.settings.environment import HostSettings
from bot.settings.github_website import website
from bot.sinks.client import SinkClient
from notifications.sinks.sender import SinkSender
from notifications.sinks.sink_jobs import SinkJobs
from notifications.sinks.text import Site
from queue_engine.core.timing.clock import Clock


class Sinks:
    """The sinks of one process: which event causes a message, and who sends it."""

    def __init__(self, settings: HostSettings, clock: Clock, random: Callable[[], float]) -> None:
        site = Site(website(settings.github_api_url), settings.public_url)
        self.client = SinkClient(clock)
        self.jobs = SinkJobs(settings.sinks)
        self.sender = SinkSender(settings.sinks, site, self.client, clock, random=random)
