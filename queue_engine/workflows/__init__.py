"""Workflow files of GitHub Actions: which events start them, which checks their jobs report, which jobs run. Pure.

An answer is yes, no or unknown (None): unknown never counts as yes, so that no candidate passes for tested untested.
Sources: GitHub's pages "Workflow syntax", "Evaluate expressions", "Events that trigger workflows", "Contexts".
"""
