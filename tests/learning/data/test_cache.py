"""The folder of datasets: what lies there in place of a file, clients without end, two that fetch at once."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from local_server import serving
from odd_files import device, enormous, pipe
from published import Contents, held, put, tiny

from fedwave.errors import FedwaveError
from fedwave.learning.data import originals, sources
from fedwave.learning.data.dataset import load_dataset
from fedwave.learning.data.download import fetch

FILE = "t10k-labels-idx1-ubyte.gz"


@pytest.fixture
def contents(monkeypatch: pytest.MonkeyPatch) -> Contents:
    return tiny(monkeypatch)


@pytest.mark.parametrize(
    ("thing", "reason"),
    [
        (pipe, "cannot be read: it is not a regular file"),
        (device, "cannot be read: it is not a regular file"),
        (Path.mkdir, "cannot be read: Is a directory"),
        (enormous, "has 1,000,000,000,000 bytes, must have at most 30"),
        (lambda path: path.write_bytes(b"x" * 30), "is damaged: its md5 sum is"),
    ],
    ids=["pipe", "device", "folder", "sparse", "damaged"],
)
def test_what_lies_in_place_of_a_file_is_named(thing, reason, contents, tmp_path: Path) -> None:
    put(contents, tmp_path)
    (tmp_path / "mnist" / FILE).unlink()
    thing(tmp_path / "mnist" / FILE)
    with pytest.raises(FedwaveError) as caught:
        load_dataset("mnist", tmp_path)
    assert f"{FILE} {reason}" in str(caught.value)
    assert "; delete it and run `fedwave data mnist --out" in str(caught.value)


def test_a_link_is_as_good_as_what_it_leads_to(contents, monkeypatch, tmp_path: Path) -> None:
    put(contents, tmp_path / "data")
    file, elsewhere = tmp_path / "data" / "mnist" / FILE, tmp_path / "elsewhere"
    file.rename(elsewhere)
    file.symlink_to(elsewhere)
    assert load_dataset("mnist", tmp_path / "data").classes == 10

    def source(wanted, scratch: Path) -> sources.Files:
        yield from ((name, contents["mnist"][name]) for name in wanted)

    monkeypatch.setitem(sources.SOURCES, "mnist", {"one": source})
    elsewhere.unlink()  # the link leads nowhere: the file is fetched, and nothing is written through the link
    assert fetch("mnist", tmp_path / "data") == [FILE]
    assert not file.is_symlink()
    assert not elsewhere.exists()
    assert held(tmp_path / "data" / "mnist") == contents["mnist"]


FETCH = """
import json, sys
from functools import partial
from pathlib import Path
from fedwave.learning.data import download, originals, sources
server, folder, sums, sizes = sys.argv[1:]
originals.MD5["mnist"], originals.SIZES["mnist"] = json.loads(sums), json.loads(sizes)
sources.SOURCES["mnist"] = {"server": partial(sources.mnist_by_address, server)}
download.fetch("mnist", Path(folder))
"""


def test_two_processes_fetch_into_the_same_folder(contents, tmp_path: Path) -> None:
    def slowly(content: bytes):
        def answer(handler) -> None:
            time.sleep(0.2)  # so that both are at work
            handler.send_response(200)
            handler.end_headers()
            handler.wfile.write(content)

        return answer

    facts = (json.dumps(originals.MD5["mnist"]), json.dumps(originals.SIZES["mnist"]))
    with serving({file: slowly(content) for file, content in contents["mnist"].items()}) as server:
        both = [subprocess.Popen([sys.executable, "-c", FETCH, server, str(tmp_path), *facts]) for _ in range(2)]
        try:
            assert [one.wait(timeout=60) for one in both] == [0, 0]
        finally:
            for one in both:
                one.kill()
    assert held(tmp_path) == contents["mnist"]


ENDLESS = """
import sys
file = open(sys.argv[1], "ab") if sys.argv[1:] else sys.stderr.buffer
while True:
    file.write(bytes(100_000))
    file.flush()
"""


@pytest.mark.parametrize("where", [["package.whl"], []], ids=["package", "errors"])
def test_a_client_that_writes_without_end(where, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sources, "_MOST_WRITTEN", 3_000_000)
    monkeypatch.setattr(sources, "_LOOK_EVERY_S", 0.02)
    with pytest.raises(ValueError, match="it has written more than 3,000,000 bytes"):
        sources._client([sys.executable, "-c", ENDLESS, *where], tmp_path)


def test_a_client_that_never_ends_is_ended_with_its_children(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sources, "_LONGEST_S", 1)
    child = "import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(600)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with pytest.raises(ValueError, match="not done after 1 s"):
        sources._client([sys.executable, "-c", parent], tmp_path)
    if (tmp_path / "pid").exists():  # on a slow machine the child has not begun
        pid = int((tmp_path / "pid").read_text() or 0)
        for _ in range(200):
            if not pid or not _alive(pid):
                return
            time.sleep(0.05)
        raise AssertionError("the child is still at work")


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
