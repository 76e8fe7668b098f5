"""Attacks on fedwave, and a judge who counts what comes of them.

    python -m tests.attacks commands --from 0 --to 100 --seed 0    # from the root of a checkout
    python -m tests.attacks all --json attacks.json                # the full set: `make attacks`

An attack is made from its kind, number and seed alone, so one that went wrong is repeated by naming it. Kinds: the
command line and its files (`commands`), forged run folders (`folders`), single bits flipped in a run folder (`flips`)
and packages of datasets with hostile content (`packages`). `driver.py` runs each in a process of its own, `judge.py`
says what came of it, `canary.py` whether anything outside was touched.
"""
