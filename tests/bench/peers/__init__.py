"""The programs BCVM is measured beside, one worker each, in environments of their own.

A `with_*.py` runs as a script under its peer's interpreter, so that it and what it imports from this
folder need the standard library and NumPy only.
"""
