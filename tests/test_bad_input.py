"""What a user can get wrong: the error names the value and the field."""

import numpy as np
import pytest
from refusals import refused

import fedwave as fw
from fedwave.parts import registry

NAN = float("nan")


def simulate(scheduler="random", rounds=3, instances=2, seed=0, network=None, **options):
    return fw.simulate(network or fw.paper_network(), scheduler, rounds, instances, seed, **options)


def run_on(rounds=3, instances=2, **changes):
    return simulate(rounds=rounds, instances=instances, network=fw.paper_network(**changes))


def gains(*shape):
    return fw.fading.RecordedGains(np.ones(shape))


def arrivals(*shape):
    return fw.arrivals.RecordedArrivals(np.ones(shape))


def with_one(value, shape=(2, 3)):
    record = np.ones(shape)
    record[1, 2] = value
    return record


def refuses(cause, tokens):
    """``cause`` must raise FedwaveError with one line that names the tokens."""
    with refused(*tokens) as caught:
        cause()
    assert "\n" not in str(caught.value)


PARAMETERS = [
    *("fading rician:k_factor=-1", "fading shadowing:sigma_db=-8", "fading gauss-markov:correlation=1.01"),
    *("success turbo:slope=0", "success turbo:blocks=1.5", "success threshold:w0=-1", "success uncoded:bits=0"),
    *("success harq:tries=0", "arrivals negative-binomial:dispersion=0", "arrivals zero-inflated-poisson:silence=1"),
]


@pytest.mark.parametrize("text", PARAMETERS)
def test_parameters_of_parts(text):
    family, part = text.split()
    _, name, value = part.replace("=", ":").split(":")
    refuses(lambda: registry.build(family, part), (name, value))


def cases(table):
    return pytest.mark.parametrize(
        ("cause", "tokens"), table, ids=lambda one: str(one) if isinstance(one, tuple) else ""
    )


# --- the network ----------------------------------------------------------------------------------


@cases(
    [
        (lambda: fw.paper_network(slots=26), ("slots", 26, 25)),
        (lambda: fw.paper_network(slots="5"), ("slots", "'5'")),
        (lambda: fw.paper_network(slots=[5, 26]), ("slots", 26, 25)),
        (lambda: fw.paper_network(slots=[]), ("slots", "empty")),
        (lambda: fw.paper_network(gamma=-0.1), ("gamma", -0.1)),
        (lambda: fw.paper_network(gamma=1e308), ("gamma", "1e+308")),
        (lambda: fw.paper_network(noise_dbm=1e6), ("device 1", "-inf dB")),
        (lambda: fw.paper_network(tx_power_dbm=1e6), ("device 1", "inf dB")),
        (lambda: fw.paper_network(slot=3), ("field", "'slot'", "'slots'")),
        (lambda: fw.paper_network(fading="ricain"), ("ricain", "rician")),
        (lambda: fw.paper_network(success=fw.fading.Rician()), ("SuccessModel",)),
        (lambda: fw.random_network(devices=0), ("devices", 0)),
    ]
)
def test_networks(cause, tokens):
    refuses(cause, tokens)


@cases(
    [
        (lambda: fw.paper_network(rate=-1.0), ("rate", "device 1", -1)),
        (lambda: fw.paper_network(rate=1e20), ("rate", "device 1", "1e+20")),
        (lambda: fw.paper_network(rate="fast"), ("rate", "'fast'")),
        (lambda: fw.paper_network(miss_probability=1.5), ("miss_probability", "device 1", 1.5)),
        (lambda: fw.paper_network(rate=[1.0, 2.0]), ("rate", 2, 25)),
        (lambda: fw.Network(devices=[]), ("device", "empty")),
        (lambda: fw.Network(devices="devices.csv"), ("devices", "devices.csv")),
        (lambda: fw.Network(devices=[(1, 100)]), ("device", "(1, 100)")),
        (lambda: fw.Network(devices=[{"rate": 1}]), ("device 1", "distance_m", "snr_db")),
    ]
)
def test_devices(cause, tokens):
    refuses(cause, tokens)


@cases(
    [
        (lambda: fw.fading.Rician("x"), ("Rician", "k_factor", "x")),
        (lambda: fw.fading.Shadowing(fading="rician"), ("Shadowing", "fading", "str")),
        (lambda: fw.fading.Shadowing(fading=gains(5, 25)), ("Shadowing", "fading", "RecordedGains")),
        (lambda: fw.success.Uncoded(modulation="qam"), ("Uncoded", "modulation", "qam")),
        (lambda: fw.success.Arq(fw.success.Harq()), ("Arq", "Harq")),
        (lambda: fw.success.Harq(model="turbo"), ("Harq", "model", "turbo")),
        (lambda: fw.success.Table([1, 0], [0.5, 0.4]), ("Table", "snr_db", "increasing")),
        (lambda: fw.success.Table([0, 1], [1.5, 0.4]), ("Table", "error_rate", 1.5)),
        (lambda: fw.success.Table(["a", "b"], [1, 0]), ("Table", "snr_db", "numbers")),
        (lambda: fw.paper_network(fading=gains(5, 25), success=fw.success.Harq()), ("HARQ", "recorded")),
        (
            lambda: fw.paper_network(fading=fw.fading.Shadowing(), success=fw.success.Harq()),
            ("HARQ", "correlation", 1.0),
        ),
    ]
)
def test_radio_and_arrivals(cause, tokens):
    refuses(cause, tokens)


# --- what is recorded -----------------------------------------------------------------------------


@cases(
    [
        (lambda: fw.fading.RecordedGains(with_one(NAN)), ("gain", "[1, 2]", "nan")),
        (lambda: fw.arrivals.RecordedArrivals(with_one(0.5)), ("arrivals", "[1, 2]", 0.5)),
        (lambda: fw.arrivals.RecordedArrivals(with_one(1e300)), ("arrivals", "[1, 2]", "1e+300")),
        (lambda: fw.arrivals.RecordedArrivals(np.ones((1, 1, 1, 1))), ("arrivals", "4 axes")),
        (lambda: fw.arrivals.RecordedArrivals([["many", "few"]]), ("arrivals", "number")),
        (lambda: run_on(rounds=6, fading=gains(5, 25)), ("gains", "5 rounds", 6)),
        (lambda: run_on(rounds=6, slots=[5] * 5), ("slots", "5 rounds", 6)),
        (lambda: run_on(fading=gains(5, 24)), ("gains", 24, 25)),
        (lambda: run_on(arrivals=arrivals(5, 2, 26)), ("arrivals", 26, 25)),
        (lambda: run_on(instances=3, fading=gains(5, 2, 25)), ("gains", 2, 3)),
        (lambda: run_on(instances=[7], arrivals=arrivals(5, 2, 25)), ("arrivals", 2, 8)),
        (lambda: fw.extend(run_on(rounds=5, fading=gains(5, 25)), 6), ("gains", "5 rounds", 6)),
    ]
)
def test_records(cause, tokens):
    refuses(cause, tokens)


# --- files ----------------------------------------------------------------------------------------

CSV = {
    "": ("empty",),
    "rate,distance_m,count\n1,100,0\n": ("empty",),
    "rate,distance_m\n1,100\n2\n": ("line 2", "fields"),
    "rate,distance_m\n1,far\n": ("line 1", "distance_m", "'far'"),
    "rate,distance_m\n1,100\nnan,200\n": ("rate", "device 2", "nan"),
    "rate,distance_m\n,100\n": ("line 1", "rate"),
    "rate,distanse_m\n1,100\n": ("column", "distanse_m", "distance_m"),
    "rate,rate,distance_m\n1,2,100\n": ("two", "rate"),
    "rate,distance_m,count\n1,100,2.5\n": ("count", 2.5),
    "rate,distance_m,count\n1,100,1e15\n": ("count", "1e+15"),
    "rate,distance_m,count\n" + "1,1,10000000\n" * 200: ("2,000,000,000 devices",),
    "rate;distance_m\n1;100\n": ("semicolons",),
    "rate,distance_m\n1_000,100\n": ("line 1", "rate", "'1_000'"),
    "rate,distance_m\n\uff11,100\n": ("line 1", "rate", "'\uff11'"),
}

YAML = {
    "": ("empty",),
    "devices:\n": ("empty",),
    "- {rate: 1, distance_m: 100\n": ("YAML", "line 2"),
    "- rate: 2024-13-45\n  distance_m: 3\n": ("line 1", "rate", "2024-13-45"),
    "42": ("list",),
    "- {rate: yes, distance_m: 100}": ("line 1", "rate", "yes"),
    "- {rate: 1, rate: 2, distance_m: 100}": ("line 1", "rate", "twice"),
    "- {rate: , distance_m: 100}": ("line 1", "rate", None),
    "- {rate: 1, distance_m: 100, buffer: 3}": ("column", "buffer", "buffer_limit"),
}


@pytest.mark.parametrize(
    ("suffix", "text", "tokens"),
    [("csv", *item) for item in CSV.items()] + [("yaml", *item) for item in YAML.items()],
    ids=[f"csv-{i}" for i in range(len(CSV))] + [f"yaml-{i}" for i in range(len(YAML))],
)
def test_device_files(tmp_path, suffix, text, tokens):
    path = tmp_path / f"devices.{suffix}"
    path.write_text(text, encoding="utf-8")
    refuses(lambda: fw.read_devices(path), tokens)


def test_device_files_that_cannot_be_read(tmp_path):
    (tmp_path / "mine.csv").write_text("rate,distance_m\n1,far\n")
    refuses(lambda: fw.read_devices(tmp_path / "mine.csv"), (str(tmp_path / "mine.csv"), "line 1"))
    refuses(lambda: fw.read_devices(tmp_path / "no.csv"), ("no.csv", "No such file"))
    (tmp_path / "devices.txt").write_text("rate,distance_m\n1,100\n")
    refuses(lambda: fw.read_devices(tmp_path / "devices.txt"), (".csv", ".yaml", ".yml"))


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("snr_db,error_rate\n0,half\n", ("line 1", "error_rate", "half")),
        ("EbNo,error_rate\n0,0.5\n", ("column", "snr_db", "EbNo")),
        ("snr_db,MCS 1,MCS 2\n0,0.5,0.6\n", ("column", "error_rate", "MCS 1")),
        ("snr_db,error_rate\n0\n", ("line 1", "fields")),
        ("snr_db,error_rate\n0,0.5\n", ("Table", 1)),
    ],
)
def test_error_rate_files(tmp_path, text, tokens):
    path = tmp_path / "curve.csv"
    path.write_text(text)
    refuses(lambda: fw.success.Table.from_file(path), tokens)
    refuses(lambda: fw.success.Table.from_file(tmp_path / "no.csv"), ("no.csv", "No such file"))


# --- runs -----------------------------------------------------------------------------------------


@cases(
    [
        (lambda: simulate(rounds=0), ("rounds", 0)),
        (lambda: simulate(rounds=2.5), ("rounds", 2.5)),
        (lambda: simulate(rounds=NAN), ("rounds", "nan")),
        (lambda: simulate(rounds="9"), ("rounds", "'9'")),
        (lambda: simulate(instances=0), ("instances", 0)),
        (lambda: simulate(instances=range(10**30)), ("instances", f"range(0, {10**30})")),
        (lambda: simulate(instances=[]), ("instances", "[]")),
        (lambda: simulate(instances=-2), ("instances", -2)),
        (lambda: simulate(instances=2.5), ("instances", 2.5)),
        (lambda: simulate(instances=[0.5]), ("instances", "[0.5]")),
        (lambda: simulate(instances=[NAN]), ("instances", "[nan]")),
        (lambda: simulate(instances=[1, -1]), ("instances", "[1, -1]")),
        (lambda: simulate(instances="ab"), ("instances", "ab")),
        (lambda: simulate(seed=-1), ("seed", -1)),
        (lambda: simulate(record="some"), ("record", "some")),
        (lambda: simulate(network="paper"), ("network", "paper")),
        (lambda: simulate("balsa_po"), ("balsa_po", "balsa-po")),
        (lambda: simulate("xyzzy"), ("scheduler", "xyzzy")),
        (lambda: fw.scheduler("alpha-fresh", alhpa=1), ("parameter", "alpha-fresh", "alhpa", "alpha")),
        (lambda: fw.scheduler("alsa-pi", alpha=1), ("parameter", "alsa-pi", "alpha")),
        (lambda: fw.scheduler("balsa", stage_rule="max2"), ("stage_rule", "max2", "max1")),
        (lambda: fw.extend(simulate(rounds=5), 5), ("5 rounds",)),
        (lambda: fw.extend(simulate(rounds=5), 7.5), ("rounds", 7.5)),
    ]
)
def test_runs(cause, tokens):
    refuses(cause, tokens)


@pytest.mark.parametrize("number", [3, 3.0, np.int32(3), np.float64(3)])
def test_whole_numbers_of_any_type_are_welcome(number):
    net = fw.paper_network(slots=number)
    trace = fw.simulate(net, "random", rounds=number, instances=number, seed=number)
    assert trace.scheduled.shape == (3, 3, 25)
    assert np.all(trace.scheduled.sum(axis=2) == 3)


# --- something else than what is asked for --------------------------------------------------------


TRACE = simulate()
HALF = np.full((2, 1), 0.5)
CURVES = fw.Curves("x", HALF, HALF, HALF[..., None], {}, HALF)
TAKES_A_PATH = {
    "Curves.load": (fw.Curves.load, "curves"),
    "Curves.save": (CURVES.save, "curves"),
    "Trace.load": (fw.Trace.load, "trace"),
    "Trace.save": (TRACE.save, "trace"),
    "load": (fw.load, "run folder"),
    "load_experiment": (fw.load_experiment, "experiment"),
    "read_devices": (fw.read_devices, "device table"),
    "run": (lambda folder: fw.run("quick", folder), "folder"),
    "success.Table": (fw.success.Table.from_file, "file"),
    "RecordedGains": (fw.fading.RecordedGains.from_file, "gains"),
    "RecordedArrivals": (fw.arrivals.RecordedArrivals.from_file, "arrivals"),
}


@pytest.mark.parametrize("name", TAKES_A_PATH)
def test_what_is_no_path(name):
    take, what = TAKES_A_PATH[name]
    for given in (None, 2.5, b"a.npz"):
        refuses(lambda given=given: take(given), (what, repr(given), "path"))


@pytest.mark.parametrize("name", TAKES_A_PATH)
def test_a_number_is_no_open_file(name, tmp_path):
    """open(0) reads and closes the standard input."""
    (tmp_path / "a.csv").write_text("1,2\n")
    with (tmp_path / "a.csv").open("rb") as file:
        number = file.fileno()
        refuses(lambda: TAKES_A_PATH[name][0](number), (number, "path"))
        assert file.read() == b"1,2\n"  # still open, and nobody has read it


@cases(
    [
        (lambda: fw.extend(None, 10), ("trace", "None")),
        (lambda: fw.compare(fw.paper_network(), ["age"], 3, 2, metrics=None), ("metrics", "None")),
        (lambda: simulate(learner="x"), ("learner", "x", "fw.train_in_lock_step")),
        (lambda: fw.train(np.array(3), "synthetic"), ("traces", "array(3)")),
        (lambda: fw.load_experiment("quick", [5]), ("overrides", 5)),
    ]
)
def test_what_is_something_else(cause, tokens):
    refuses(cause, tokens)


def test_what_is_no_trace_is_not_the_same():
    assert TRACE.same_as(TRACE)
    assert not TRACE.same_as(None)
