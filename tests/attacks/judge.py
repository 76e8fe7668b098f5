"""What came of a command or of a call."""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Callable
from typing import Any

from .attack import Verdict
from .shell import Answer, command

REFUSE, ACCEPT, EITHER = "refuse", "accept", "either"  # what is expected
LONGEST = 600  # characters of a refusal
Proof = Callable[[], str]  # what is wrong with an accepted result; "" if nothing


def judge(answer: Answer, expect: str = EITHER, proof: Proof | None = None, fine: tuple[int, ...] = (0,)) -> Verdict:
    """The outcome of a command; ``fine`` are the statuses of one that went well."""
    status, out, err = answer
    said = _first(err) or _first(out)
    if status is None:
        return Verdict("hang")
    if status < 0:
        return Verdict("killed", f"signal {-status}")
    for text in (err, out):
        if "Traceback (most recent call last)" in text or "Exception ignored" in text:
            last = [line for line in text.strip().splitlines() if line.strip()][-1]
            return Verdict("killed" if "MemoryError" in last else "traceback", last[:300])
    if status == 2 or (status == 1 and 1 not in fine):
        if wrong := ugliness(err):
            return Verdict("ugly", f"{wrong}: {said[:200]}")
        return Verdict("fussy", said[:300]) if expect == ACCEPT else Verdict("refused", said[:300])
    if status not in fine:
        return Verdict("traceback", f"exit status {status}: {said[:200]}")
    if found := strange(out + err):
        return Verdict("ugly", f"prints {found}")
    if expect == REFUSE:
        return Verdict("silent", "accepted")
    wrong = proof() if proof is not None else ""
    return Verdict("silent", wrong) if wrong else Verdict("right")


def judge_call(call: Callable[[], Any], expect: str = EITHER, proof: Callable[[Any], str] | None = None) -> Verdict:
    """The outcome of a Python call, which must raise nothing but FedwaveError."""
    from fedwave.errors import FedwaveError

    try:
        value = call()
    except FedwaveError as error:
        if wrong := ugliness(f"fedwave: {error}"):
            return Verdict("ugly", f"{wrong}: {str(error)[:200]!r}")
        return Verdict("fussy" if expect == ACCEPT else "refused", str(error)[:300])
    except MemoryError as error:
        return Verdict("killed", f"MemoryError: {error}"[:200])
    except Exception as error:
        return Verdict("traceback", f"{type(error).__name__}: {error}"[:300])
    if expect == REFUSE:
        return Verdict("silent", "accepted")
    wrong = proof(value) if proof is not None else ""
    return Verdict("silent", wrong) if wrong else Verdict("right")


def ugliness(err: str) -> str:
    """What is wrong with a refusal; "" if it is one short sentence, or one after a note."""
    text = err.strip("\n")
    if not text:
        return "says nothing"
    if found := strange(text):
        return f"prints {found}"
    lines = text.split("\n")
    # A note on a unit may come before the refusal; each has its own start.
    if len(lines) > 3 or not all(line.startswith("fedwave: ") for line in lines):
        return f"{len(lines)} lines" if len(lines) > 1 else "does not say who speaks"
    longest = max(map(len, lines))
    return f"{longest} characters" if longest > LONGEST else ""


def strange(text: str) -> str:
    """The first character that a terminal obeys instead of showing it, escaped; "" if there is none."""
    for one in text:
        if one != "\n" and unicodedata.category(one) in ("Cc", "Cf", "Zl", "Zp") and one != "\u200d":
            return ascii(one)
    return ""


def sound_folder(folder: str = "out") -> str:
    """What `verify` finds wrong with a run folder, and numbers in it that are none."""
    import numpy as np

    import fedwave as fw

    answer = command("verify", folder)
    if answer.status != 0:
        return f"verify ends with {answer.status}: {_first(answer.out + answer.err)[:200]}"
    data = fw.load(folder)
    for name in ("score", "backlog"):
        if name in data and not np.isfinite(data[name].values).all():
            return f"{name} has values that are no numbers"
    return ""


def finite_json(out: str) -> str:
    """What is wrong with the means in the JSON of `compare`."""
    try:
        content = json.loads(out)
    except ValueError as error:
        return f"no JSON: {error}"
    for label, numbers in content.get("schedulers", {}).items():
        for name in ("score", "backlog"):
            mean = numbers.get(name, {}).get("mean", 0.0)
            if mean is None or not math.isfinite(mean):
                return f"{name} of {label} is {mean}"
    return ""


def _first(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")
