"""The version, in a file of its own so that the build and provenance can read it without imports."""

__version__ = "0.1.0"
# Raised with every change of the code that changes results (tests/test_numerics.py). A run resumes only with its own.
NUMERICS = 3
