"""Reports: tables as text, figures, summaries."""
