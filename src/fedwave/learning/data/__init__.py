"""Labelled images: read, checked against their published sums, downloaded if missing."""
