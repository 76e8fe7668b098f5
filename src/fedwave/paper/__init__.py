"""Figures, theorems and claims of Lee & Lee; written on the public names of fedwave alone."""
