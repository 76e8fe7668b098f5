"""Schedulers, and what the learning ones remember."""
