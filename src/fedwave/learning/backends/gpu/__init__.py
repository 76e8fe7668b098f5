"""Chains of known layers on a GPU, many models side by side: by kernels of our own, or by torch layer by layer."""
