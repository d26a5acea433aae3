"""The pages of github.com that people use in a browser while they register and install an app.

Lives here: what a person sees and what a click does. May not live here: what GitHub *is*, or its API.
"""
