"""The run folder: its files and its lock, and the code that reads and checks it."""
