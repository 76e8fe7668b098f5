"""`fedwave bench`: the same rounds played by fedwave, by plain PyTorch and by other simulators, in one run.

work.py says what is played, ways.py by whom, environments.py makes the environments of the others, player.py talks to
a process that plays (players/), measure.py lets them play in turns, table.py shows what came of it.
"""
