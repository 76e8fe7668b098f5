"""The wireless network: its description (Network), its random events (World) and its counts (dynamics)."""
