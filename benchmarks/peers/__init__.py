"""The same rounds played by fedwave, by plain PyTorch and by other simulators: `python -m benchmarks.peers`.

work.py writes the rounds to a file that any program can read; contenders.py lists who plays them; players/ are the
programs that play; player.py talks to one of them; measure.py lets all play in turns and compares them; report.py makes
the table and the figure.
"""
