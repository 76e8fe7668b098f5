"""From runs to results: comparisons on common worlds, statistics, tables and figures."""
