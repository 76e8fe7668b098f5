"""Programs that play the rounds, each in the Python of what it measures: without fedwave, but for fedwave.py."""
