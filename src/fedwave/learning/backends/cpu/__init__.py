"""Trains chains of known layers on a CPU by code that numba compiles; docs/kernels.md explains the memory."""
