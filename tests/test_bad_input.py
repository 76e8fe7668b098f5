"""What a user can get wrong: the error names the value and the field."""

import numpy as np
import pytest
from refusals import refused

import fedwave as fw

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


def cases(table):
    return pytest.mark.parametrize(
        ("cause", "tokens"), list(table.values()), ids=[name.replace(" ", "-") for name in table]
    )


# --- the network ----------------------------------------------------------------------------------


@cases(
    {
        "more slots than devices": (lambda: fw.paper_network(slots=26), ("slots", 26, 25)),
        "no slots": (lambda: fw.paper_network(slots=0), ("slots", "W", 0)),
        "half a slot": (lambda: fw.paper_network(slots=2.5), ("slots", "W", 2.5)),
        "slots nan": (lambda: fw.paper_network(slots=NAN), ("slots", "W", "nan")),
        "slots a word": (lambda: fw.paper_network(slots="5"), ("slots", "'5'")),
        "negative slots in a round": (lambda: fw.paper_network(slots=[5, -1]), ("slots", "W", -1)),
        "too many slots in a round": (lambda: fw.paper_network(slots=[5, 26]), ("slots", 26, 25)),
        "slots empty": (lambda: fw.paper_network(slots=[]), ("slots", "empty")),
        "negative gamma": (lambda: fw.paper_network(gamma=-0.1), ("gamma", -0.1)),
        "gamma nan": (lambda: fw.paper_network(gamma=NAN), ("gamma", "nan")),
        "gamma a word": (lambda: fw.paper_network(gamma="low"), ("gamma", "low")),
        "a gamma for which the score overflows": (lambda: fw.paper_network(gamma=1e308), ("gamma", "1e+308")),
        "noise nan": (lambda: fw.paper_network(noise_dbm=NAN), ("noise_dbm", "nan")),
        "noise beyond all measure": (lambda: fw.paper_network(noise_dbm=1e6), ("device 1", "-inf dB")),
        "power beyond all measure": (lambda: fw.paper_network(tx_power_dbm=1e6), ("device 1", "inf dB")),
        "unknown field": (lambda: fw.paper_network(slot=3), ("field", "'slot'", "'slots'")),
        "unknown field like a column": (lambda: fw.paper_network(distance=3), ("distance", "distance_m")),
        "a word for a part": (lambda: fw.paper_network(fading="ricain"), ("ricain", "rician")),
        "the wrong part": (lambda: fw.paper_network(success=fw.fading.Rician()), ("SuccessModel",)),
        "random network of nobody": (lambda: fw.random_network(devices=0), ("devices", 0)),
        "random network with a negative seed": (lambda: fw.random_network(seed=-1), ("seed", -1)),
    }
)
def test_networks(cause, tokens):
    refuses(cause, tokens)


@cases(
    {
        "negative rate": (lambda: fw.paper_network(rate=-1.0), ("rate", "device 1", -1)),
        "nan rate": (lambda: fw.paper_network(rate=[1.0] * 24 + [NAN]), ("rate", "device 25", "nan")),
        "infinite rate": (lambda: fw.paper_network(rate=np.inf), ("rate", "device 1", "inf")),
        "a rate that no generator can draw": (lambda: fw.paper_network(rate=1e20), ("rate", "device 1", "1e+20")),
        "a word for a rate": (lambda: fw.paper_network(rate="fast"), ("rate", "'fast'")),
        "zero distance": (lambda: fw.paper_network(distance_m=0), ("distance_m", "device 1", 0)),
        "miss probability": (lambda: fw.paper_network(miss_probability=1.5), ("miss_probability", "device 1", 1.5)),
        "miss probability nan": (
            lambda: fw.paper_network(miss_probability=NAN),
            ("miss_probability", "device 1", "nan"),
        ),
        "half a shard of buffer": (lambda: fw.paper_network(buffer_limit=2.5), ("buffer_limit", "device 1", 2.5)),
        "interference nan": (lambda: fw.paper_network(interference_dbm=NAN), ("interference_dbm", "device 1", "nan")),
        "infinite power": (lambda: fw.paper_network(tx_power_dbm=np.inf), ("tx_power_dbm", "device 1", "inf")),
        "a column of another length": (lambda: fw.paper_network(rate=[1.0, 2.0]), ("rate", 2, 25)),
        "no devices": (lambda: fw.Network(devices=[]), ("device", "empty")),
        "no rows": (lambda: fw.DeviceTable(rate=[], distance_m=[]), ("device", "empty")),
        "a file name for devices": (lambda: fw.Network(devices="devices.csv"), ("devices", "devices.csv")),
        "a number for devices": (lambda: fw.Network(devices=5), ("devices", 5)),
        "a pair for a device": (lambda: fw.Network(devices=[(1, 100)]), ("device", "(1, 100)")),
        "a device without distance": (lambda: fw.Network(devices=[{"rate": 1}]), ("line 1", "distance_m")),
    }
)
def test_devices(cause, tokens):
    refuses(cause, tokens)


@cases(
    {
        "rician": (lambda: fw.fading.Rician(-1), ("Rician", "k_factor", -1)),
        "rician nan": (lambda: fw.fading.Rician(NAN), ("Rician", "k_factor", "nan")),
        "rician a word": (lambda: fw.fading.Rician("x"), ("Rician", "k_factor", "x")),
        "correlation": (lambda: fw.fading.GaussMarkov(1.01), ("GaussMarkov", "correlation", 1.01)),
        "correlation nan": (lambda: fw.fading.Shadowing(8, NAN), ("correlation", "nan")),
        "shadowing": (lambda: fw.fading.Shadowing(-8), ("sigma_db", -8)),
        "shadowing of a word": (lambda: fw.fading.Shadowing(fading="rician"), ("Shadowing", "fading", "str")),
        "shadowing of a record": (
            lambda: fw.fading.Shadowing(fading=gains(5, 25)),
            ("Shadowing", "fading", "RecordedGains"),
        ),
        "turbo midpoint nan": (lambda: fw.success.Turbo(midpoint_db=NAN), ("Turbo", "midpoint_db", "nan")),
        "turbo slope": (lambda: fw.success.Turbo(slope=0), ("Turbo", "slope", 0)),
        "turbo blocks": (lambda: fw.success.Turbo(blocks=1.5), ("Turbo", "blocks", 1.5)),
        "threshold": (lambda: fw.success.Threshold(-1), ("Threshold", "w0", -1)),
        "soft": (lambda: fw.success.Soft(NAN), ("Soft", "w0", "nan")),
        "bits": (lambda: fw.success.Uncoded(bits=0), ("Uncoded", "bits", 0)),
        "modulation": (lambda: fw.success.Uncoded(modulation="qam"), ("Uncoded", "modulation", "qam")),
        "tries": (lambda: fw.success.Harq(tries=0), ("Harq", "tries", 0)),
        "tries of tries": (lambda: fw.success.Arq(fw.success.Harq()), ("Arq", "Harq")),
        "a word for a model": (lambda: fw.success.Harq(model="turbo"), ("Harq", "model", "turbo")),
        "one point": (lambda: fw.success.Table([1], [0.5]), ("Table", 1)),
        "unsorted points": (lambda: fw.success.Table([1, 0], [0.5, 0.4]), ("Table", "snr_db", "increasing")),
        "error rate above 1": (lambda: fw.success.Table([0, 1], [1.5, 0.4]), ("Table", "error_rate", 1.5)),
        "error rate nan": (lambda: fw.success.Table([0, 1], [0.5, NAN]), ("Table", "error_rate", "nan")),
        "words for points": (lambda: fw.success.Table(["a", "b"], [1, 0]), ("Table", "snr_db", "numbers")),
        "dispersion": (lambda: fw.arrivals.NegativeBinomial(0), ("NegativeBinomial", "dispersion", 0)),
        "silence": (lambda: fw.arrivals.ZeroInflatedPoisson(1.0), ("ZeroInflatedPoisson", "silence", 1.0)),
        "harq on recorded gains": (
            lambda: fw.paper_network(fading=gains(5, 25), success=fw.success.Harq()),
            ("HARQ", "recorded"),
        ),
        "harq behind one obstacle": (
            lambda: fw.paper_network(fading=fw.fading.Shadowing(), success=fw.success.Harq()),
            ("HARQ", "correlation", 1.0),
        ),
    }
)
def test_radio_and_arrivals(cause, tokens):
    refuses(cause, tokens)


# --- what is recorded -----------------------------------------------------------------------------


@cases(
    {
        "nan gain": (lambda: fw.fading.RecordedGains(with_one(NAN)), ("gain", "[1, 2]", "nan")),
        "infinite gain": (lambda: fw.fading.RecordedGains(with_one(np.inf)), ("[1, 2]", "inf")),
        "negative gain": (lambda: fw.fading.RecordedGains(with_one(-0.5)), ("[1, 2]", -0.5)),
        "negative arrivals": (lambda: fw.arrivals.RecordedArrivals(with_one(-3)), ("arrivals", "[1, 2]", -3)),
        "half an arrival": (lambda: fw.arrivals.RecordedArrivals(with_one(0.5)), ("arrivals", "[1, 2]", 0.5)),
        "nan arrivals": (lambda: fw.arrivals.RecordedArrivals(with_one(NAN)), ("[1, 2]", "nan")),
        "arrivals beyond counting": (
            lambda: fw.arrivals.RecordedArrivals(with_one(1e300)),
            ("arrivals", "[1, 2]", "1e+300"),
        ),
        "gains of one axis": (lambda: fw.fading.RecordedGains([1.0, 2.0]), ("gains", "1 axes")),
        "arrivals of four axes": (lambda: fw.arrivals.RecordedArrivals(np.ones((1, 1, 1, 1))), ("arrivals", "4 axes")),
        "ragged gains": (lambda: fw.fading.RecordedGains([[1.0], [1.0, 2.0]]), ("gains", "number")),
        "words for arrivals": (lambda: fw.arrivals.RecordedArrivals([["many", "few"]]), ("arrivals", "number")),
        "gains too short": (lambda: run_on(rounds=6, fading=gains(5, 25)), ("gains", "5 rounds", 6)),
        "arrivals too short": (lambda: run_on(rounds=6, arrivals=arrivals(5, 25)), ("arrivals", "5 rounds", 6)),
        "slots too short": (lambda: run_on(rounds=6, slots=[5] * 5), ("slots", "5 rounds", 6)),
        "gains of other devices": (lambda: run_on(fading=gains(5, 24)), ("gains", 24, 25)),
        "gains of one device": (lambda: run_on(fading=gains(5, 1)), ("gains", 1, 25)),
        "arrivals of other devices": (lambda: run_on(arrivals=arrivals(5, 2, 26)), ("arrivals", 26, 25)),
        "too few instances of gains": (lambda: run_on(instances=3, fading=gains(5, 2, 25)), ("gains", 2, 3)),
        "an instance beyond the record": (
            lambda: run_on(instances=[7], arrivals=arrivals(5, 2, 25)),
            ("arrivals", 2, 8),
        ),
        "going on past the record": (
            lambda: fw.extend(run_on(rounds=5, fading=gains(5, 25)), 6),
            ("gains", "5 rounds", 6),
        ),
    }
)
def test_records(cause, tokens):
    refuses(cause, tokens)


# --- files ----------------------------------------------------------------------------------------

CSV = {
    "": ("empty",),
    "rate,distance_m\n": ("empty",),
    "rate,distance_m,count\n1,100,0\n": ("empty",),
    "rate,distance_m\n1,100\n2\n": ("line 2", "fields"),
    "rate,distance_m\n1,100,7\n": ("line 1", "fields"),
    "rate,distance_m\n1,far\n": ("line 1", "distance_m", "'far'"),
    "rate,distance_m\n1,100\nnan,200\n": ("rate", "device 2", "nan"),
    "rate,distance_m\n1,-5\n": ("distance_m", "device 1", -5),
    "rate\n1\n": ("line 1", "distance_m"),
    "rate,distance_m\n,100\n": ("line 1", "rate"),
    "rate,distanse_m\n1,100\n": ("column", "distanse_m", "distance_m"),
    "rate,distance_m,colour\n1,100,red\n": ("column", "colour"),
    "rate,rate,distance_m\n1,2,100\n": ("two", "rate"),
    "rate,distance_m,count\n1,100,2.5\n": ("count", 2.5),
    "rate,distance_m,count\n1,100,nan\n": ("count", "nan"),
    "rate,distance_m,count\n1,100,1e15\n": ("count", "1e+15"),
    "rate,distance_m\n1," + "1" * 200_000 + "\n": ("CSV",),
}

YAML = {
    "": ("empty",),
    "[]": ("empty",),
    "devices: []": ("empty",),
    "devices:\n": ("empty",),
    "- rate: 1\n\tdistance_m: 3\n": ("YAML", "line 2"),
    "- {rate: 1, distance_m: 100\n": ("YAML", "line 2"),
    "- rate: 2024-13-45\n  distance_m: 3\n": ("line 1", "rate", "2024-13-45"),
    "42": ("list",),
    "rate: 1\ndistance_m: 100\n": ("list",),
    "- 1\n- 2\n": ("list",),
    "- {rate: lots, distance_m: 100}": ("line 1", "rate", "lots"),
    "- {rate: yes, distance_m: 100}": ("line 1", "rate", "yes"),
    "- {rate: true, distance_m: 100}": ("line 1", "rate", True),
    "- {rate: 1, rate: 2, distance_m: 100}": ("line 1", "rate", "twice"),
    "- {rate: , distance_m: 100}": ("line 1", "rate", None),
    "- {rate: [1], distance_m: 100}": ("line 1", "rate", "[1]"),
    "- {rate: -2, distance_m: 100}": ("rate", "device 1", -2),
    "- {rate: 1, distance_m: 100, buffer: 3}": ("column", "buffer", "buffer_limit"),
    "- {1: 2}": ("column", 1),
    "- !!python/object/apply:os.getcwd []": ("line 1", "tag", "python/object/apply"),
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
    (tmp_path / "folder.csv").mkdir()
    refuses(lambda: fw.read_devices(tmp_path / "folder.csv"), ("folder.csv", "Is a directory"))
    (tmp_path / "raw.csv").write_bytes(b"\xff\xfe\x00\x9c")
    refuses(lambda: fw.read_devices(tmp_path / "raw.csv"), ("raw.csv", "UTF-16"))
    (tmp_path / "raw.csv").write_bytes(b"rate\xff\x00\x9c")
    refuses(lambda: fw.read_devices(tmp_path / "raw.csv"), ("raw.csv", "text"))
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
        ("", ("column", "error_rate")),
        ("snr_db,error_rate\n", ("Table", 0)),
        ("snr_db,error_rate\n0,0.5\n0,0.4\n", ("Table", "snr_db", "increasing")),
        ("snr_db,error_rate\n0,0.5\n1,nan\n", ("Table", "error_rate", "nan")),
    ],
)
def test_error_rate_files(tmp_path, text, tokens):
    path = tmp_path / "curve.csv"
    path.write_text(text)
    refuses(lambda: fw.success.Table.from_file(path), tokens)
    refuses(lambda: fw.success.Table.from_file(tmp_path / "no.csv"), ("no.csv", "No such file"))


# --- runs -----------------------------------------------------------------------------------------


@cases(
    {
        "no rounds": (lambda: simulate(rounds=0), ("rounds", 0)),
        "half a round": (lambda: simulate(rounds=2.5), ("rounds", 2.5)),
        "rounds nan": (lambda: simulate(rounds=NAN), ("rounds", "nan")),
        "rounds a word": (lambda: simulate(rounds="9"), ("rounds", "'9'")),
        "no instances": (lambda: simulate(instances=0), ("instances", 0)),
        "instances without end": (lambda: simulate(instances=range(10**30)), ("instances", f"range(0, {10**30})")),
        "empty instances": (lambda: simulate(instances=[]), ("instances", "[]")),
        "negative instances": (lambda: simulate(instances=-2), ("instances", -2)),
        "half an instance": (lambda: simulate(instances=2.5), ("instances", 2.5)),
        "a half in a list": (lambda: simulate(instances=[0.5]), ("instances", "[0.5]")),
        "instance nan": (lambda: simulate(instances=[NAN]), ("instances", "[nan]")),
        "a negative number": (lambda: simulate(instances=[1, -1]), ("instances", "[1, -1]")),
        "instances a word": (lambda: simulate(instances="ab"), ("instances", "ab")),
        "negative seed": (lambda: simulate(seed=-1), ("seed", -1)),
        "half a seed": (lambda: simulate(seed=0.5), ("seed", 0.5)),
        "no seed": (lambda: simulate(seed=None), ("seed", "None")),
        "record": (lambda: simulate(record="some"), ("record", "some")),
        "a word for a network": (lambda: simulate(network="paper"), ("network", "paper")),
        "unknown scheduler": (lambda: simulate("balsa_po"), ("balsa_po", "balsa-po")),
        "scheduler like no other": (lambda: simulate("xyzzy"), ("scheduler", "xyzzy")),
        "no scheduler": (lambda: simulate(None), ("scheduler", "None")),
        "unknown parameter": (
            lambda: fw.scheduler("alpha-fresh", alhpa=1),
            ("parameter", "alpha-fresh", "alhpa", "alpha"),
        ),
        "parameter where there is none": (lambda: fw.scheduler("alsa-pi", alpha=1), ("parameter", "alsa-pi", "alpha")),
        "bad parameter": (lambda: fw.scheduler("balsa", stage_rule="max2"), ("stage_rule", "max2", "max1")),
        "going on backwards": (lambda: fw.extend(simulate(rounds=5), 5), ("5 rounds",)),
        "going on by half a round": (lambda: fw.extend(simulate(rounds=5), 7.5), ("rounds", 7.5)),
    }
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
@pytest.mark.parametrize("given", [True, None, 2.5, b"a.npz", ["a.npz"], np.array([1, 2])])
def test_what_is_no_path(name, given):
    take, what = TAKES_A_PATH[name]
    refuses(lambda: take(given), (what, repr(given), "path"))


@pytest.mark.parametrize("name", TAKES_A_PATH)
def test_a_number_is_no_open_file(name, tmp_path):
    """open(0) reads and closes the standard input."""
    (tmp_path / "a.csv").write_text("1,2\n")
    with (tmp_path / "a.csv").open("rb") as file:
        number = file.fileno()
        refuses(lambda: TAKES_A_PATH[name][0](number), (number, "path"))
        assert file.read() == b"1,2\n"  # still open, and nobody has read it


@cases(
    {
        "extend nothing": (lambda: fw.extend(None, 10), ("trace", "None")),
        "remake a file": (lambda: fw.remake("a.npz"), ("trace", "a.npz")),
        "metrics none": (lambda: simulate(metrics=None), ("metrics", "None")),
        "metrics a word": (lambda: simulate(metrics="mass"), ("metrics", "mass")),
        "metrics of a comparison": (
            lambda: fw.compare(fw.paper_network(), ["age"], 3, 2, metrics=None),
            ("metrics", "None"),
        ),
        "instances of no axis": (lambda: simulate(instances=np.array(3)), ("instances", "array(3)")),
        "instances bytes": (lambda: simulate(instances=b"bytes"), ("instances", "b'bytes'")),
        "instances a mapping": (lambda: simulate(instances={1: 2}), ("instances", "{1: 2}")),
        "record an array": (lambda: simulate(record=np.array([1, 2])), ("record", "array([1, 2])")),
        "beliefs an array": (lambda: simulate(beliefs=np.array([1, 2])), ("beliefs", "array([1, 2])")),
        "a learner that cannot": (lambda: simulate(learner="x"), ("learner", "x", "fw.train_in_lock_step")),
        "another network, remade": (lambda: fw.remake(TRACE, network=np.array([1, 2])), ("network", "array([1, 2])")),
        "a bound on nothing": (lambda: fw.score_bound(None), ("network", "None")),
        "lock step on nothing": (lambda: fw.train_in_lock_step(None, "age", "synthetic", 3, 1), ("network", "None")),
        "training on a number": (lambda: fw.train(np.array(3), "synthetic"), ("traces", "array(3)")),
        "overrides none": (lambda: fw.load_experiment("quick", None), ("overrides", "None")),
        "imports of no axis": (lambda: fw.load_experiment("quick", imports=np.array(3)), ("imports", "array(3)")),
        "overrides of numbers": (lambda: fw.load_experiment("quick", [5]), ("overrides", 5)),
        "a metric that is an array": (
            lambda: fw.compare(fw.paper_network(), ["age"], 3, 2, metric=np.array([1, 2])),
            ("metric", "array([1, 2])"),
        ),
        "devices of no axis": (lambda: fw.Network(np.array(3)), ("devices", "array(3)")),
        "slots a mapping": (lambda: fw.paper_network(slots={1: 2}), ("slots", "W", "{1: 2}")),
        "rounds a table": (lambda: simulate(rounds=np.ones((40, 40))), ("rounds", "array([[1., 1., 1.")),
    }
)
def test_what_is_something_else(cause, tokens):
    refuses(cause, tokens)


def test_what_is_no_trace_is_not_the_same():
    assert TRACE.same_as(TRACE)
    assert not TRACE.same_as(None)
