"""Experiments that come with fedwave, as YAML files; the first line of each describes it."""
