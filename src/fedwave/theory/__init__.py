"""Results about schedulers without training: bounds, exact optima, and the theorems of the paper."""
