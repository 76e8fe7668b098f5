"""Statistics over instances, predictions from schedules, and their texts for people."""
