"""The version, in a file of its own so that the build and provenance can read it without imports."""

__version__ = "0.1.0"
