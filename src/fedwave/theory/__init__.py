"""What can be said about schedulers without simulating them: bounds, exact optima, and the theorems of the paper."""
