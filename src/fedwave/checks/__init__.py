"""Contract checks of parts: ``fw.check`` for built-in parts and for users' own.

``check.py`` finds the family of a part. ``shared.py`` has what all families share: the trial of a part, and a table of
checks. Each family has a file that says how its parts are tried, with the checks that it adds; ``statistics.py`` tests
distributions.
"""

from fedwave.checks.check import check

__all__ = ["check"]
