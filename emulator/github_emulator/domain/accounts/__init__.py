"""Users, apps and installations, and the owners and names of repositories.

May not live here: what people do to branches and pull requests.
"""
