"""What people read: tables as text, figures, summaries."""
