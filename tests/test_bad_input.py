"""What a user can get wrong, and the one sentence that answers: the value, the rule, the likely fix."""

import re

import numpy as np
import pytest

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


def refused(cause, sentence):
    """``cause`` must raise FedwaveError, and say exactly this."""
    with pytest.raises(fw.FedwaveError) as caught:
        cause()
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def cases(table):
    return pytest.mark.parametrize(
        ("cause", "sentence"), list(table.values()), ids=[name.replace(" ", "-") for name in table]
    )


# --- the network ----------------------------------------------------------------------------------


@cases(
    {
        "more slots than devices": (
            lambda: fw.paper_network(slots=26),
            "slots (W) is 26 but there are only 25 devices: W must not exceed them.",
        ),
        "no slots": (lambda: fw.paper_network(slots=0), "slots (W) is 0, must be a whole number >= 1."),
        "half a slot": (lambda: fw.paper_network(slots=2.5), "slots (W) is 2.5, must be a whole number >= 1."),
        "slots nan": (lambda: fw.paper_network(slots=NAN), "slots (W) is nan, must be a whole"),
        "slots none": (lambda: fw.paper_network(slots=None), "slots (W) is None, must be a whole"),
        "slots a word": (lambda: fw.paper_network(slots="5"), "slots (W) is '5', must be a whole"),
        "negative slots in a round": (
            lambda: fw.paper_network(slots=[5, -1]),
            "slots (W) is -1, must be a whole number >= 0.",
        ),
        "too many slots in a round": (
            lambda: fw.paper_network(slots=[5, 26]),
            "slots (W) is 26 but there are only 25 devices",
        ),
        "slots empty": (lambda: fw.paper_network(slots=[]), "slots is an empty list: give W"),
        "negative gamma": (lambda: fw.paper_network(gamma=-0.1), "gamma is -0.1, must be a number >= 0."),
        "gamma nan": (lambda: fw.paper_network(gamma=NAN), "gamma is nan, must be a number >= 0."),
        "gamma a word": (lambda: fw.paper_network(gamma="low"), "gamma is low, must be a number"),
        "noise nan": (lambda: fw.paper_network(noise_dbm=NAN), "noise_dbm is nan, must be a number."),
        "noise beyond all measure": (
            lambda: fw.paper_network(noise_dbm=1e6),
            "the mean SNR of device 1 is -inf dB, must lie between -300 and 300 dB: check",
        ),
        "power beyond all measure": (
            lambda: fw.paper_network(tx_power_dbm=1e6),
            "the mean SNR of device 1 is inf dB, must lie between -300 and 300 dB: check",
        ),
        "unknown field": (lambda: fw.paper_network(slot=3), "a network has no field 'slot'; did you mean 'slots'?"),
        "unknown field like a column": (
            lambda: fw.paper_network(distance=3),
            "a network has no field 'distance'; did you mean 'distance_m'?",
        ),
        "a word for a part": (
            lambda: fw.paper_network(fading="ricain"),
            "there is no fading 'ricain'; did you mean 'rician'?",
        ),
        "the wrong part": (lambda: fw.paper_network(success=fw.fading.Rician()), "must be a SuccessModel object."),
        "random network of nobody": (
            lambda: fw.random_network(devices=0),
            "the number of devices is 0, must be a whole number >= 1.",
        ),
        "random network with a negative seed": (
            lambda: fw.random_network(seed=-1),
            "seed is -1, must be a whole number >= 0.",
        ),
    }
)
def test_networks(cause, sentence):
    refused(cause, sentence)


@cases(
    {
        "negative rate": (lambda: fw.paper_network(rate=-1.0), "rate of device 1 is -1, must be a number >= 0"),
        "nan rate": (
            lambda: fw.paper_network(rate=[1.0] * 24 + [NAN]),
            "rate of device 25 is nan, must be a number >= 0",
        ),
        "infinite rate": (lambda: fw.paper_network(rate=np.inf), "rate of device 1 is inf, must be"),
        "a rate that no generator can draw": (
            lambda: fw.paper_network(rate=1e20),
            "rate of device 1 is 1e+20, must be a number >= 0 and at most 1e9",
        ),
        "a word for a rate": (
            lambda: fw.paper_network(rate="fast"),
            "device column 'rate' is 'fast', must be a number or a list of numbers.",
        ),
        "zero distance": (
            lambda: fw.paper_network(distance_m=0),
            "distance_m of device 1 is 0, must be a number > 0 (metres).",
        ),
        "miss probability": (
            lambda: fw.paper_network(miss_probability=1.5),
            "miss_probability of device 1 is 1.5, must be between 0 and 1.",
        ),
        "miss probability nan": (
            lambda: fw.paper_network(miss_probability=NAN),
            "miss_probability of device 1 is nan, must be between 0 and 1.",
        ),
        "half a shard of buffer": (
            lambda: fw.paper_network(buffer_limit=2.5),
            "buffer_limit of device 1 is 2.5, must be a whole number >= 0, or inf for none.",
        ),
        "interference nan": (
            lambda: fw.paper_network(interference_dbm=NAN),
            "interference_dbm of device 1 is nan, must be a number (dBm), or -inf for none.",
        ),
        "infinite power": (
            lambda: fw.paper_network(tx_power_dbm=np.inf),
            "tx_power_dbm of device 1 is inf, must be a number (dBm).",
        ),
        "a column of another length": (
            lambda: fw.paper_network(rate=[1.0, 2.0]),
            "device column 'rate' has 2 values for 25 devices: give one value per device, or one",
        ),
        "no devices": (lambda: fw.Network(devices=[]), "the device table is empty: give it at least one device."),
        "no rows": (
            lambda: fw.DeviceTable(rate=[], distance_m=[]),
            "the device table is empty: give it at least one device.",
        ),
        "a file name for devices": (
            lambda: fw.Network(devices="devices.csv"),
            "devices is 'devices.csv', must be a DeviceTable or a list",
        ),
        "a number for devices": (lambda: fw.Network(devices=5), "devices is 5, must be a"),
        "a pair for a device": (
            lambda: fw.Network(devices=[(1, 100)]),
            "a device is (1, 100), must be a Device or a mapping",
        ),
        "a device without distance": (
            lambda: fw.Network(devices=[{"rate": 1}]),
            "the device table, device line 1: distance_m is missing.",
        ),
    }
)
def test_devices(cause, sentence):
    refused(cause, sentence)


@cases(
    {
        "rician": (lambda: fw.fading.Rician(-1), "Rician k_factor is -1, must be a number >= 0 (0 is"),
        "rician nan": (lambda: fw.fading.Rician(NAN), "Rician k_factor is nan, must be a number >= 0"),
        "rician a word": (lambda: fw.fading.Rician("x"), "Rician k_factor is x, must be a number >= 0"),
        "correlation": (
            lambda: fw.fading.GaussMarkov(1.01),
            "GaussMarkov correlation is 1.01, must lie between 0 and 1.",
        ),
        "correlation nan": (lambda: fw.fading.Shadowing(8, NAN), "correlation is nan, must lie between"),
        "shadowing": (lambda: fw.fading.Shadowing(-8), "sigma_db is -8, must be a number >= 0."),
        "shadowing of a word": (
            lambda: fw.fading.Shadowing(fading="rician"),
            "Shadowing fading is a str, must be a fading model without shadowing of its own",
        ),
        "shadowing of a record": (
            lambda: fw.fading.Shadowing(fading=gains(5, 25)),
            "Shadowing fading is a RecordedGains, must be a fading model without shadowing",
        ),
        "turbo midpoint nan": (
            lambda: fw.success.Turbo(midpoint_db=NAN),
            "Turbo midpoint_db is nan, must be a number (dB).",
        ),
        "turbo slope": (lambda: fw.success.Turbo(slope=0), "Turbo slope is 0, must be a number > 0."),
        "turbo blocks": (lambda: fw.success.Turbo(blocks=1.5), "Turbo blocks is 1.5, must be a whole number >= 1."),
        "threshold": (lambda: fw.success.Threshold(-1), "Threshold w0 is -1, must be a number > 0."),
        "soft": (lambda: fw.success.Soft(NAN), "Soft w0 is nan, must be a number > 0."),
        "bits": (lambda: fw.success.Uncoded(bits=0), "Uncoded bits is 0, must be a whole number >= 1."),
        "modulation": (
            lambda: fw.success.Uncoded(modulation="qam"),
            "Uncoded modulation is 'qam', must be 'bpsk' or 'qpsk'.",
        ),
        "tries": (lambda: fw.success.Harq(tries=0), "Harq tries is 0, must be a whole number >= 1."),
        "tries of tries": (
            lambda: fw.success.Arq(fw.success.Harq()),
            "Arq cannot repeat Harq: give it a model of a single try.",
        ),
        "a word for a model": (
            lambda: fw.success.Harq(model="turbo"),
            "Harq model is 'turbo', must be a SuccessModel object, such as Turbo().",
        ),
        "one point": (
            lambda: fw.success.Table([1], [0.5]),
            "Table has 1 SNR values and 1 error rates, must have two or more of each, in pairs.",
        ),
        "unsorted points": (
            lambda: fw.success.Table([1, 0], [0.5, 0.4]),
            "Table snr_db must be finite and increasing: sort the points.",
        ),
        "error rate above 1": (
            lambda: fw.success.Table([0, 1], [1.5, 0.4]),
            "Table error_rate holds 1.5, must lie between 0 and 1.",
        ),
        "error rate nan": (lambda: fw.success.Table([0, 1], [0.5, NAN]), "Table error_rate holds nan, must"),
        "words for points": (
            lambda: fw.success.Table(["a", "b"], [1, 0]),
            "Table snr_db and error_rate must be lists of numbers.",
        ),
        "dispersion": (
            lambda: fw.arrivals.NegativeBinomial(0),
            "NegativeBinomial dispersion is 0, must lie between 1e-6 and 1e6",
        ),
        "silence": (
            lambda: fw.arrivals.ZeroInflatedPoisson(1.0),
            "ZeroInflatedPoisson silence is 1.0, must lie in [0, 1).",
        ),
        "harq on recorded gains": (
            lambda: fw.paper_network(fading=gains(5, 25), success=fw.success.Harq()),
            "HARQ draws new gains for later tries, which a recorded array does not hold: use another",
        ),
        "harq behind one obstacle": (
            lambda: fw.paper_network(fading=fw.fading.Shadowing(), success=fw.success.Harq()),
            "HARQ needs shadowing that is new in every round, not correlation 1.0: "
            "use Shadowing(correlation=0) or another success model.",
        ),
    }
)
def test_radio_and_arrivals(cause, sentence):
    refused(cause, sentence)


# --- what is recorded -----------------------------------------------------------------------------


@cases(
    {
        "nan gain": (
            lambda: fw.fading.RecordedGains(with_one(NAN)),
            "recorded gain at [1, 2] is nan, must be a number >= 0: clean the record first.",
        ),
        "infinite gain": (lambda: fw.fading.RecordedGains(with_one(np.inf)), "at [1, 2] is inf, must be"),
        "negative gain": (lambda: fw.fading.RecordedGains(with_one(-0.5)), "at [1, 2] is -0.5, must be"),
        "negative arrivals": (
            lambda: fw.arrivals.RecordedArrivals(with_one(-3)),
            "recorded arrivals at [1, 2] are -3, must be whole numbers >= 0",
        ),
        "half an arrival": (
            lambda: fw.arrivals.RecordedArrivals(with_one(0.5)),
            "recorded arrivals at [1, 2] are 0.5, must be whole numbers >= 0",
        ),
        "nan arrivals": (lambda: fw.arrivals.RecordedArrivals(with_one(NAN)), "at [1, 2] are nan, must be"),
        "arrivals beyond counting": (
            lambda: fw.arrivals.RecordedArrivals(with_one(1e300)),
            "recorded arrivals at [1, 2] are 1e+300, must be whole numbers >= 0 and at most 1e+09.",
        ),
        "gains of one axis": (
            lambda: fw.fading.RecordedGains([1.0, 2.0]),
            "recorded gains have 1 axes, must be [round, device] or [round, instance, device].",
        ),
        "arrivals of four axes": (
            lambda: fw.arrivals.RecordedArrivals(np.ones((1, 1, 1, 1))),
            "recorded arrivals have 4 axes, must be [round, device]",
        ),
        "ragged gains": (
            lambda: fw.fading.RecordedGains([[1.0], [1.0, 2.0]]),
            "recorded gains hold something that is not a number, or rows of different lengths",
        ),
        "words for arrivals": (
            lambda: fw.arrivals.RecordedArrivals([["many", "few"]]),
            "recorded arrivals hold something that is not a number",
        ),
        "gains too short": (
            lambda: run_on(rounds=6, fading=gains(5, 25)),
            "the recorded gains cover 5 rounds but the run has 6: record more, or run fewer rounds.",
        ),
        "arrivals too short": (
            lambda: run_on(rounds=6, arrivals=arrivals(5, 25)),
            "the recorded arrivals cover 5 rounds but the run has 6: record more, or run fewer",
        ),
        "slots too short": (
            lambda: run_on(rounds=6, slots=[5] * 5),
            "slots are given for 5 rounds but the run has 6: give more, or run fewer rounds.",
        ),
        "gains of other devices": (
            lambda: run_on(fading=gains(5, 24)),
            "the recorded gains are of 24 devices but the network has 25.",
        ),
        "gains of one device": (
            lambda: run_on(fading=gains(5, 1)),
            "the recorded gains are of 1 devices but the network has 25.",
        ),
        "arrivals of other devices": (
            lambda: run_on(arrivals=arrivals(5, 2, 26)),
            "the recorded arrivals are of 26 devices but the network has 25.",
        ),
        "too few instances of gains": (
            lambda: run_on(instances=3, fading=gains(5, 2, 25)),
            "the recorded gains cover 2 instances but the run needs 3.",
        ),
        "an instance beyond the record": (
            lambda: run_on(instances=[7], arrivals=arrivals(5, 2, 25)),
            "the recorded arrivals cover 2 instances but the run needs 8.",
        ),
        "going on past the record": (
            lambda: fw.extend(run_on(rounds=5, fading=gains(5, 25)), 6),
            "the recorded gains cover 5 rounds but the run has 6",
        ),
    }
)
def test_records(cause, sentence):
    refused(cause, sentence)


# --- files ----------------------------------------------------------------------------------------

CSV = {
    "": "is empty: give it at least one device.",
    "rate,distance_m\n": "is empty: give it at least one device.",
    "rate,distance_m,count\n1,100,0\n": "is empty: give it at least one device.",
    "rate,distance_m\n1,100\n2\n": "device line 2: the number of fields differs from the heading's.",
    "rate,distance_m\n1,100,7\n": "device line 1: the number of fields differs from the heading's.",
    "rate,distance_m\n1,far\n": "device line 1: distance_m is 'far', must be a number.",
    "rate,distance_m\n1,100\nnan,200\n": "rate of device 2 is nan, must be a number >= 0",
    "rate,distance_m\n1,-5\n": "distance_m of device 1 is -5, must be a number > 0 (metres).",
    "rate\n1\n": "device line 1: distance_m is missing.",
    "rate,distance_m\n,100\n": "device line 1: rate is missing.",
    "rate,distanse_m\n1,100\n": "unknown column 'distanse_m'; did you mean 'distance_m'?",
    "rate,distance_m,colour\n1,100,red\n": "unknown column 'colour'; known are buffer_limit, count,",
    "rate,rate,distance_m\n1,2,100\n": "has two columns 'rate': keep one.",
    "rate,distance_m,count\n1,100,2.5\n": "count is 2.5, must be a whole number between 0 and",
    "rate,distance_m,count\n1,100,nan\n": "count is nan, must be a whole number between 0 and",
    "rate,distance_m,count\n1,100,1e15\n": "count is 1e+15, must be a whole number between 0 and",
    "rate,distance_m\n1," + "1" * 200_000 + "\n": "is not a valid CSV file: field larger than",
}

YAML = {
    "": "is empty: give it at least one device.",
    "[]": "is empty: give it at least one device.",
    "devices: []": "is empty: give it at least one device.",
    "devices:\n": "is empty: give it at least one device.",
    "- rate: 1\n\tdistance_m: 3\n": "is not valid YAML in line 2: found character",
    "- {rate: 1, distance_m: 100\n": "is not valid YAML in line 2: expected ',' or '}'",
    "- rate: 2024-13-45\n  distance_m: 3\n": "device line 1: rate is '2024-13-45', must be a number.",
    "42": "must be a list of devices, such as `- {rate: 1, distance_m: 100}`.",
    "rate: 1\ndistance_m: 100\n": "must be a list of devices, such as",
    "- 1\n- 2\n": "must be a list of devices, such as",
    "- {rate: lots, distance_m: 100}": "device line 1: rate is 'lots', must be a number.",
    "- {rate: yes, distance_m: 100}": "device line 1: rate is 'yes', must be a number.",
    "- {rate: true, distance_m: 100}": "device line 1: rate is True, must be a number.",
    "- {rate: 1, rate: 2, distance_m: 100}": "in line 1: the key 'rate' is given twice.",
    "- {rate: , distance_m: 100}": "device line 1: rate is None, must be a number.",
    "- {rate: [1], distance_m: 100}": "device line 1: rate is [1], must be a number.",
    "- {rate: -2, distance_m: 100}": "rate of device 1 is -2, must be a number >= 0",
    "- {rate: 1, distance_m: 100, buffer: 3}": "unknown column 'buffer'; did you mean 'buffer_limit'",
    "- {1: 2}": "unknown column 1; known are",
    "- !!python/object/apply:os.getcwd []": "in line 1: the tag 'tag:yaml.org,2002:python/object/apply",
}


@pytest.mark.parametrize(
    ("suffix", "text", "sentence"),
    [("csv", *item) for item in CSV.items()] + [("yaml", *item) for item in YAML.items()],
    ids=[f"csv-{i}" for i in range(len(CSV))] + [f"yaml-{i}" for i in range(len(YAML))],
)
def test_device_files(tmp_path, suffix, text, sentence):
    path = tmp_path / f"devices.{suffix}"
    path.write_text(text, encoding="utf-8")
    refused(lambda: fw.read_devices(path), sentence)


def test_a_device_file_is_named_in_its_complaint(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("rate,distance_m\n1,far\n")
    with pytest.raises(fw.FedwaveError, match=f"^device table {re.escape(str(path))}"):
        fw.read_devices(path)


def test_device_files_that_cannot_be_read(tmp_path):
    refused(lambda: fw.read_devices(tmp_path / "no.csv"), "cannot be read: No such file")
    (tmp_path / "folder.csv").mkdir()
    refused(lambda: fw.read_devices(tmp_path / "folder.csv"), "cannot be read: Is a directory")
    (tmp_path / "raw.csv").write_bytes(b"\xff\xfe\x00\x9c")
    refused(lambda: fw.read_devices(tmp_path / "raw.csv"), "it is UTF-16, save it as UTF-8.")
    (tmp_path / "raw.csv").write_bytes(b"rate\xff\x00\x9c")
    refused(lambda: fw.read_devices(tmp_path / "raw.csv"), "cannot be read: it is not text.")
    (tmp_path / "devices.txt").write_text("rate,distance_m\n1,100\n")
    refused(lambda: fw.read_devices(tmp_path / "devices.txt"), "must end in .csv, .yaml or .yml.")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("snr_db,error_rate\n0,half\n", "line 1: error_rate is 'half', must be a number."),
        ("snr,error_rate\n0,0.5\n", "has no column 'snr_db': it must have the headings"),
        ("snr_db,error_rate\n0\n", "line 1: the number of fields differs from the heading's."),
        ("snr_db,error_rate\n0,0.5\n", "Table has 1 SNR values and 1 error rates, must have two"),
        ("", "has no column 'error_rate': it must have the headings"),
        ("snr_db,error_rate\n", "Table has 0 SNR values and 0 error rates, must have two"),
        ("snr_db,error_rate\n0,0.5\n0,0.4\n", "Table snr_db must be finite and increasing"),
        ("snr_db,error_rate\n0,0.5\n1,nan\n", "Table error_rate holds nan, must lie between 0 and 1."),
    ],
)
def test_error_rate_files(tmp_path, text, sentence):
    path = tmp_path / "curve.csv"
    path.write_text(text)
    refused(lambda: fw.success.Table.from_file(path), sentence)


def test_a_missing_error_rate_file(tmp_path):
    refused(lambda: fw.success.Table.from_file(tmp_path / "no.csv"), "cannot be read: No such file")


# --- runs -----------------------------------------------------------------------------------------


@cases(
    {
        "no rounds": (lambda: simulate(rounds=0), "rounds is 0, must be a whole number >= 1."),
        "half a round": (lambda: simulate(rounds=2.5), "rounds is 2.5, must be a whole number >= 1."),
        "rounds nan": (lambda: simulate(rounds=NAN), "rounds is nan, must be a whole number >= 1."),
        "rounds a word": (lambda: simulate(rounds="9"), "rounds is '9', must be a whole number >= 1."),
        "no instances": (
            lambda: simulate(instances=0),
            "instances is 0, must be a whole number >= 1 or a list of instance numbers >= 0.",
        ),
        "empty instances": (lambda: simulate(instances=[]), "instances is [], must be a whole"),
        "negative instances": (lambda: simulate(instances=-2), "instances is -2, must be a whole"),
        "half an instance": (lambda: simulate(instances=2.5), "instances is 2.5, must be a whole"),
        "a half in a list": (lambda: simulate(instances=[0.5]), "instances is [0.5], must be a"),
        "instance nan": (lambda: simulate(instances=[NAN]), "instances is [nan], must be a whole"),
        "a negative number": (lambda: simulate(instances=[1, -1]), "instances is [1, -1], must be"),
        "instances a word": (lambda: simulate(instances="ab"), "instances is 'ab', must be a whole"),
        "negative seed": (lambda: simulate(seed=-1), "seed is -1, must be a whole number >= 0."),
        "half a seed": (lambda: simulate(seed=0.5), "seed is 0.5, must be a whole number >= 0."),
        "no seed": (lambda: simulate(seed=None), "seed is None, must be a whole number >= 0."),
        "record": (lambda: simulate(record="some"), "record is 'some', must be 'full' or 'summary'."),
        "a word for a network": (
            lambda: simulate(network="paper"),
            "network is 'paper', must be a Network, such as paper_network().",
        ),
        "unknown scheduler": (
            lambda: simulate("balsa_po"),
            "there is no scheduler 'balsa_po'; did you mean 'balsa-po'?",
        ),
        "scheduler like no other": (
            lambda: simulate("xyzzy"),
            "there is no scheduler 'xyzzy'; known are age, alpha-fresh, alsa-pi,",
        ),
        "no scheduler": (lambda: simulate(None), "None is no scheduler: give a name, such as"),
        "unknown parameter": (
            lambda: fw.scheduler("alpha-fresh", alhpa=1),
            "scheduler 'alpha-fresh' has no parameter 'alhpa'; did you mean 'alpha'?",
        ),
        "parameter where there is none": (
            lambda: fw.scheduler("alsa-pi", alpha=1),
            "scheduler 'alsa-pi' has no parameter 'alpha'; it has none.",
        ),
        "bad parameter": (
            lambda: fw.scheduler("balsa", stage_rule="max2"),
            "stage_rule is 'max2'; did you mean 'max1'?",
        ),
        "going on backwards": (
            lambda: fw.extend(simulate(rounds=5), 5),
            "the trace has 5 rounds already: ask for more than 5.",
        ),
        "going on by half a round": (
            lambda: fw.extend(simulate(rounds=5), 7.5),
            "rounds is 7.5, must be a whole number >= 1.",
        ),
    }
)
def test_runs(cause, sentence):
    refused(cause, sentence)


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
    "Curves.load": (fw.Curves.load, "the file of curves"),
    "Curves.save": (CURVES.save, "the file for curves"),
    "Trace.load": (fw.Trace.load, "the file of a trace"),
    "Trace.save": (TRACE.save, "the file for a trace"),
    "load": (fw.load, "a run folder"),
    "load_experiment": (fw.load_experiment, "an experiment"),
    "read_devices": (fw.read_devices, "the file of a device table"),
    "run": (lambda folder: fw.run("quick", folder), "folder"),
    "success.Table": (fw.success.Table.from_file, "a file to read"),
    "RecordedGains": (fw.fading.RecordedGains.from_file, "the file of the record of gains"),
    "RecordedArrivals": (fw.arrivals.RecordedArrivals.from_file, "the file of the record of arrivals"),
}


@pytest.mark.parametrize("name", TAKES_A_PATH)
@pytest.mark.parametrize("given", [True, None, 2.5, b"a.npz", ["a.npz"], np.array([1, 2])])
def test_what_is_no_path(name, given):
    take, what = TAKES_A_PATH[name]
    refused(lambda: take(given), f"{what} is {given!r}, must be a path: a text or a Path.")


@pytest.mark.parametrize("name", TAKES_A_PATH)
def test_a_number_is_no_open_file(name, tmp_path):
    """open(0) reads and closes the standard input."""
    (tmp_path / "a.csv").write_text("1,2\n")
    with (tmp_path / "a.csv").open("rb") as file:
        number = file.fileno()
        refused(lambda: TAKES_A_PATH[name][0](number), f"is {number}, must be a path")
        assert file.read() == b"1,2\n"  # still open, and nobody has read it


@cases(
    {
        "extend nothing": (lambda: fw.extend(None, 10), "trace is None, must be a Trace: what"),
        "remake a file": (lambda: fw.remake("a.npz"), "trace is 'a.npz', must be a Trace: what"),
        "the network of nothing": (lambda: fw.network_of(None), "trace is None, must be a Trace"),
        "metrics none": (
            lambda: simulate(metrics=None),
            "metrics is None, must be a list of metrics, such as ['mass'].",
        ),
        "metrics a word": (lambda: simulate(metrics="mass"), "metrics is 'mass', must be a list"),
        "metrics of a comparison": (
            lambda: fw.compare(fw.paper_network(), ["age"], 3, 2, metrics=None),
            "metrics is None, must be a list of metrics",
        ),
        "instances of no axis": (
            lambda: simulate(instances=np.array(3)),
            "instances is array(3), must be a whole number >= 1 or a list",
        ),
        "instances bytes": (
            lambda: simulate(instances=b"bytes"),
            "instances is b'bytes', must be a whole number >= 1 or a list",
        ),
        "instances a mapping": (
            lambda: simulate(instances={1: 2}),
            "instances is {1: 2}, must be a whole number >= 1 or a list",
        ),
        "record an array": (
            lambda: simulate(record=np.array([1, 2])),
            "record is array([1, 2]), must be 'full' or 'summary'.",
        ),
        "beliefs an array": (
            lambda: simulate(beliefs=np.array([1, 2])),
            "beliefs is array([1, 2]), must be True or False.",
        ),
        "a learner that cannot": (
            lambda: simulate(learner="x"),
            "learner is 'x', must have train and deliver: use fw.train_in_lock_step.",
        ),
        "another network, remade": (
            lambda: fw.remake(TRACE, network=np.array([1, 2])),
            "network is array([1, 2]), must be a Network, such as paper_network().",
        ),
        "a bound on nothing": (lambda: fw.score_bound(None), "network is None, must be a Network"),
        "lock step on nothing": (
            lambda: fw.train_in_lock_step(None, "age", "synthetic", 3, 1),
            "network is None, must be a Network",
        ),
        "training on a number": (lambda: fw.train(np.array(3), "synthetic"), "traces is array(3),"),
        "overrides none": (
            lambda: fw.load_experiment("quick", None),
            "overrides is None, must be a text or a list of texts.",
        ),
        "imports of no axis": (
            lambda: fw.load_experiment("quick", imports=np.array(3)),
            "imports is array(3), must be a text or a list of texts.",
        ),
        "overrides of numbers": (lambda: fw.load_experiment("quick", [5]), "overrides holds 5, must hold texts."),
        "a metric that is an array": (
            lambda: fw.compare(fw.paper_network(), ["age"], 3, 2, metric=np.array([1, 2])),
            "metric is array([1, 2]), must be a name, such as 'backlog'.",
        ),
        "devices of no axis": (lambda: fw.Network(np.array(3)), "devices is array(3), must be a"),
        "slots a mapping": (
            lambda: fw.paper_network(slots={1: 2}),
            "slots (W) is {1: 2}, must be a whole number >= 1.",
        ),
        "rounds a table": (lambda: simulate(rounds=np.ones((40, 40))), "rounds is array([[1., 1., 1."),
    }
)
def test_what_is_something_else(cause, sentence):
    refused(cause, sentence)


def test_what_is_no_trace_is_not_the_same():
    assert TRACE.same_as(TRACE)
    assert not TRACE.same_as(None)
