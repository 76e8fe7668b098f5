"""The command line: reads options, calls the package, prints. No numerics here."""

from fedwave.cli.app import main

__all__ = ["main"]
