"""Other people's systems that fedwave can run on."""
