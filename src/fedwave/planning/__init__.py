"""The solvers behind the index schedulers and the exact schedulers."""
