"""The command line: reads options, calls the package, prints. No numerics here."""

from fedwave import starting


def main() -> None:
    """Entry point of the `fedwave` command."""
    starting.loading()
    from fedwave.cli.app import main as command

    starting.loaded()
    command()


__all__ = ["main"]
