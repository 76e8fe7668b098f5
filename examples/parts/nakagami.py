"""Nakagami-m fading: h is Gamma(m, 1/m). m = 1 is Rayleigh; a larger m fades less."""

from dataclasses import dataclass

import fedwave as fw


@fw.register
@dataclass(frozen=True)
class Nakagami(fw.fading.Fading):
    """Power gains of mean 1 and variance 1/m, new in every round."""

    m: float = 2.0
    name = "nakagami"

    def __post_init__(self):
        if not self.m >= 0.5:
            raise fw.FedwaveError(f"Nakagami m is {self.m}, must be a number >= 0.5.")

    def sample(self, block, carry):
        return block.draw(self.fresh), None

    def fresh(self, rng, shape):
        return rng.standard_gamma(self.m, shape) / self.m
