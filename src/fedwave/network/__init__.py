"""The wireless network: what it is (Network), what happens to it (World), how its counts move (step)."""
