"""Training real models on a Trace. Only modules of this folder import torch."""
