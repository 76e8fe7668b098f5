"""Labelled images: read, checked against their published sums, fetched when missing."""
