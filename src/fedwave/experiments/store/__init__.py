"""What an experiment found: the run folder, its tables, and statistics over instances."""
