"""Running an experiment: units of work, the workers that do them, and their checkpoints."""
