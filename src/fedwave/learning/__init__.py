"""Training real models on a Trace. torch is imported here and nowhere else."""
