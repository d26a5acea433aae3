"""Known facts of GitHub, and GitHub's answers compared with them.

GitHub answers reads from replicas: for seconds after a change a read may show the former state (octokit.js #900,
hubstats #106, rust-lang/homu #75). A webhook, or the answer to a write of IMQ, is newer than any such read.
"""
