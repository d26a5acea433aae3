"""What a simulated GitHub needs before it has any record: clock, schedule, git, keys, switches and errors.

May not live here: users, repositories, or any other record.
"""
