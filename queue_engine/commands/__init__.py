"""Commands in comments: extract and parse them, and execute them by admission, control and queries."""
