"""Events as plain data, the bus that carries them, and what every part of the domain shares.

May not live here: anything that knows a part of the domain.
"""
