"""What trains and evaluates models: torch (any model), numba (chains on a CPU), CUDA kernels (chains on a GPU)."""
