# The two commands of the README need only Python 3.11 or newer, pip and make: they set up all the rest.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: reproduce test test-slow attacks soak first-hour reference bench bench-peers lint types unit clean

reproduce: $(STAMP)  ## the paper's figures with bands: out/score, out/mnist
	$(BIN)/fedwave reproduce score --out out/score
	$(BIN)/fedwave reproduce mnist --quick --out out/mnist

test: $(STAMP)  ## lint, types, tests; prints how long each took
	@scripts/timed lint  $(MAKE) --no-print-directory lint
	@scripts/timed types $(MAKE) --no-print-directory types
	@scripts/timed tests $(MAKE) --no-print-directory unit

test-slow: export OMP_NUM_THREADS = 1
test-slow: export PYTHONUTF8 = 1
test-slow: $(STAMP)  ## runs killed at random moments, attacks, again and again: minutes
	@scripts/timed "slow tests" $(BIN)/python -m pytest -n auto --dist load -m slow -o faulthandler_timeout=1800 tests

attacks: $(STAMP)  ## hostile words, files and folders: counts of what came of them, a quarter of an hour
	$(BIN)/python -m tests.attacks all

MINUTES ?= 30
soak: $(STAMP)  ## runs killed, resumed twice at once, on a full disk, for MINUTES: counts in out/soak.json
	$(BIN)/python -m tests.soak --minutes $(MINUTES) --json out/soak.json

first-hour:  ## follows the README and docs/first-hour.md literally in an empty environment: minutes
	$(PYTHON) tests/first_hour.py

reference: $(STAMP)  ## the reference backlogs at full size: 600 instances x 2300 rounds
	$(BIN)/python -m benchmarks.reference

bench: $(STAMP)  ## speed and memory, printed
	$(BIN)/python -m benchmarks.speed
	$(BIN)/python -m benchmarks.cpu_chain
	$(BIN)/python -m benchmarks.runner

PEERS := $(patsubst %,out/peers/%/made,pfl flower)
bench-peers: $(STAMP) $(PEERS)  ## the same rounds by plain PyTorch, pfl-research, Flower and fedwave: out/peers/bench.json, .png
	$(BIN)/python -m benchmarks.peers --threads 1 2 --repeats 6

# Other simulators clash with each other and with fedwave. One that cannot be installed is shown as unavailable.
out/peers/%/made: benchmarks/peers/%.txt
	-$(PYTHON) -m venv --clear $(@D) && $(@D)/bin/pip install --quiet --disable-pip-version-check -r $< && touch $@

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

# One thread for each of the processes: threads that share every small step would be many times slower. Tests read and
# print UTF-8, whatever the locale.
unit: export OMP_NUM_THREADS = 1
unit: export PYTHONUTF8 = 1
unit: $(STAMP)
	$(BIN)/python -m pytest -n auto --dist loadfile

# Wheels only: nothing is compiled. The stamp is remade when the pins or the package's own needs change.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'fedwave needs Python 3.11 or newer; run: make PYTHON=python3.11')"
	$(PYTHON) -m venv $(VENV)
	@# torch first and by its exact pin: asked for by a range, pip may choose a build many times as large.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) out .mypy_cache .ruff_cache .pytest_cache .hypothesis
