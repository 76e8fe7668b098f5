"""The solvers behind the index and exact schedulers: the worth of a transmission, and small networks solved exactly."""
