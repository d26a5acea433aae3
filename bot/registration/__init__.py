"""Register the GitHub App: its manifest, the pages that lead through GitHub's manifest flow, and its credentials."""
