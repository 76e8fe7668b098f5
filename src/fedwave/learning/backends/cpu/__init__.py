"""Chains of known layers on a CPU, by code that numba compiles."""
