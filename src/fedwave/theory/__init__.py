"""Results about schedulers without training: small networks solved exactly, and bounds.

ExactProblem        a few devices, channel levels and any arrivals
exact_problem       the same from a Network
value_iteration     solves it: the least mean backlog, and the decisions that reach it
Optimum             what value_iteration returns
mean_backlog        the exact mean backlog of any policy in p and n
"""

from fedwave.theory.exact_problem import ExactProblem, exact_problem
from fedwave.theory.policy_value import Optimum, mean_backlog, value_iteration

__all__ = ["ExactProblem", "Optimum", "exact_problem", "mean_backlog", "value_iteration"]
