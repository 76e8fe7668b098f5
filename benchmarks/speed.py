"""Speed and memory of the scheduling half, printed: `make bench`.

Times are of this machine and this moment; the ratios printed beside them come from the same run. Each size
of the growth table runs in a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time

import fedwave as fw


def time_schedulers() -> None:
    print("25 devices x 50 instances x 500 rounds, one process")
    first = 0.0
    for name in fw.scheduler_names(standalone=True):
        best = min(_timed(name) for _ in range(3))
        first = first or best
        print(f"  {name:<20}{best:7.3f} s   {best / first:5.2f} x alsa-pi", flush=True)


def _timed(name: str) -> float:
    network = fw.paper_network()
    start = time.perf_counter()
    fw.simulate(network, name, rounds=500, instances=50)
    return time.perf_counter() - start


def growth(largest: int) -> None:
    print("one instance in summary form: milliseconds a round, and peak memory of the process")
    print(f"  {'devices':>9}{'alsa-pi':>22}{'balsa':>22}")
    size = 100
    while size <= largest:
        cells = [_in_new_process(name, size) for name in ("alsa-pi", "balsa")]
        print(f"  {size:>9,}" + "".join(f"{ms:>11.2f} ms {mb:>5.0f} MB" for ms, mb in cells), flush=True)
        size *= 10


def _in_new_process(name: str, size: int) -> tuple[float, float]:
    command = [sys.executable, "-m", "benchmarks.speed", "--one", name, str(size)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return float(answer[0]), float(answer[1])


def one(name: str, size: int) -> None:
    """Time per round without the set-up: a long run less a short one."""
    network = fw.random_network(size, slots=max(1, size // 5))
    rounds = 20 if size >= 100_000 else 200
    short = _run(network, name, 4)
    long = _run(network, name, 4 + rounds)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(1000 * (long - short) / rounds, peak_mb)


def _run(network: fw.Network, name: str, rounds: int) -> float:
    start = time.perf_counter()
    fw.simulate(network, name, rounds=rounds, instances=1, record="summary")
    return time.perf_counter() - start


def import_time() -> None:
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import fedwave"], check=True)
        best = min(best, time.perf_counter() - start)
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    print(f"import fedwave: {best:.2f} s, of which bare Python {time.perf_counter() - start:.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--one", nargs=2, metavar=("SCHEDULER", "DEVICES"), help=argparse.SUPPRESS)
    parser.add_argument("--largest", type=int, default=1_000_000)
    options = parser.parse_args()
    if options.one:
        one(options.one[0], int(options.one[1]))
        return
    import_time()
    time_schedulers()
    growth(options.largest)


if __name__ == "__main__":
    main()
