"""Commands in comments: extract, parse and execute them. No HTTP, no texts.

May not live here: HTTP, texts, rules of their own. Commands call admission, control and queries.
"""
