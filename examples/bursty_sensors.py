"""Sensors from a table, bursty arrivals and retransmissions: which schedule keeps the least waiting?"""

from pathlib import Path

import fedwave as fw

TABLE = Path(__file__).with_name("sensors.csv")

if __name__ == "__main__":
    sensors = fw.Network(
        fw.read_devices(TABLE),
        slots=3,
        arrivals=fw.arrivals.NegativeBinomial(dispersion=1.0),
        success=fw.success.Harq(fw.success.Turbo(blocks=683), tries=3),
    )
    for name in ("sqrt-rule", "max-weight", "alsa-pi", "balsa", "balsa-po", "round-robin"):
        trace = fw.simulate(sensors, name, rounds=200, instances=10, seed=1)
        print(f"{name:12} mean backlog {trace.backlog[50:].mean():5.1f}")
