"""Read a pull request with everything that decisions need, in one request.

May not live here: decisions.
"""
