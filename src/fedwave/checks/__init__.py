"""Does a scheduler keep its contract? One list of checks, run over ours and over anybody's."""
