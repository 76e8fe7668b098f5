"""Exchangeable parts by family and name: the registry, users' files, and parts in files."""
