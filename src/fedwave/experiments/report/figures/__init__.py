"""Figures. matplotlib is imported in this room only."""
