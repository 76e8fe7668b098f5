"""The version, in a file of its own so that the build and provenance can read it without imports."""

__version__ = "0.1.0"
# Raised with every change of the code that changes results (tests/test_numerics.py): no run goes on with another.
NUMERICS = 3
