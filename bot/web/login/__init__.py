"""Login with GitHub, sessions, and the tokens that guard forms."""
