"""The wireless network: its description (Network), its random events (World), its counts (step)."""
