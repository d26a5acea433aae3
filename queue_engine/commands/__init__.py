"""Commands that people give in comments: read, judged, carried out. No HTTP, no words of people's."""
