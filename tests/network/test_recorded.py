"""Recorded gains and recorded arrivals are used as they are."""

import numpy as np
import pytest

import fedwave as fw

KINDS = {
    "gain": (lambda record: {"fading": fw.fading.RecordedGains(record)}, "fading", "gains"),
    "arrivals": (lambda record: {"arrivals": fw.arrivals.RecordedArrivals(record)}, "arrivals", "counts"),
}


@pytest.mark.filterwarnings("ignore::fedwave.network.plausible.ImplausibleWarning")
@pytest.mark.parametrize("first", [1, 70])
@pytest.mark.parametrize("field", KINDS)
def test_a_record_is_used_exactly(play, crowd, field, first):
    """Per instance and, from whole numbers written as floats, for all instances."""
    made, family, _ = KINDS[field]
    record = np.random.default_rng(1).integers(0, 9, (150, 5, 3))
    whole = play(crowd(3, **made(record)), 150, [4, 1], first=first)
    np.testing.assert_array_equal(getattr(whole, field), record[first - 1 :, [4, 1]])
    network = crowd(3, **made(record[:, 0].astype(float)))
    assert getattr(network, family).shared
    same = getattr(play(network, 150, [4, 9], first=first), field)
    for row in range(2):
        np.testing.assert_array_equal(same[:, row], record[first - 1 :, 0])


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_does_not_change_with_the_array_it_was_made_from(kind):
    made, family, name = KINDS[kind]
    record = np.ones((4, 2))
    kept = getattr(made(record)[family], name)
    record[0, 0] = 7.0
    assert np.all(kept == 1)
    with pytest.raises(ValueError, match="read-only"):
        kept[0, 0] = 7


@pytest.mark.parametrize("suffix", ["npy", "csv"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_record_from_a_file(tmp_path, kind, suffix):
    made, family, name = KINDS[kind]
    record, path = np.array([[1, 0], [0, 7]]), tmp_path / f"record.{suffix}"
    if suffix == "npy":
        np.save(path, record)
    else:
        path.write_text("1,0\n0,7\n")
    part = type(made(record)[family])
    np.testing.assert_array_equal(getattr(part.from_file(str(path)), name), record)


def test_the_rates_of_a_record_are_its_means(crowd):
    flat = np.array([[0, 4, 2], [2, 6, 2]])
    assert crowd(3, arrivals=fw.arrivals.RecordedArrivals(flat)).rates.tolist() == [1, 5, 2]
    deep = np.stack([flat, flat + 2], axis=1)  # two instances
    assert crowd(3, arrivals=fw.arrivals.RecordedArrivals(deep)).rates.tolist() == [2, 6, 3]
