"""Commands that prove a clone's history: `imq audit` by git alone, and `imq verify` by IMQ's records."""
