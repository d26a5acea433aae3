"""A repository's own rules, `.github/imq.yml`: how it is read, what is wrong with it, and the policies it makes.

Pure: text in, data out. Where the text comes from is the business of `bot`; no HTTP, no database, no clock here.
"""
