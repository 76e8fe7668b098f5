"""Groups a chain for the GPU kernels: convolutions, each with the layers after it, then linear layers.

To support another layer here, give it a place in a block; a chain with other layers is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import nn

from fedwave.learning.backends.gpu.wide_ops import ConvBlock
from fedwave.learning.chain_spec import ChainSpec


@dataclass(frozen=True)
class LinearBlock:
    """A linear layer, with the ReLU after it if there is one."""

    name: str
    inputs: int
    outputs: int
    has_bias: bool
    relu: bool = False


@dataclass(frozen=True)
class ChainBlocks:
    """A chain of convolutions, each with the batch norm, ReLU and max-pooling after it, and of linear layers."""

    convolutions: list[ConvBlock]
    linears: list[LinearBlock]

    @classmethod
    def of(cls, spec: ChainSpec) -> ChainBlocks | None:
        """None if the chain has other layers, or parameters that are not trained."""
        blocks: list[ConvBlock] = []
        linears: list[LinearBlock] = []
        if not all(p.requires_grad for one in spec.layers for p in one.layer.parameters()):
            return None
        for one in spec.layers:
            layer, last = one.layer, blocks[-1] if blocks else None
            if isinstance(layer, nn.Conv2d):
                made = ConvBlock.of(one.name, layer, one.before)
                if made is None:
                    return None
                blocks.append(made)
            elif isinstance(layer, nn.BatchNorm2d) and last and not (last.norm or last.relu or last.pool > 1):
                blocks[-1] = replace(last, norm=one.name, momentum=layer.momentum or 0.0, eps=layer.eps)
            elif isinstance(layer, nn.ReLU) and linears:
                linears[-1] = replace(linears[-1], relu=True)
            elif isinstance(layer, nn.ReLU) and last:
                blocks[-1] = replace(last, relu=True)  # after pooling it is the same as before
            elif isinstance(layer, nn.MaxPool2d) and last and last.pool == 1 and _tile(layer) > 1:
                blocks[-1] = replace(last, pool=_tile(layer))
            elif isinstance(layer, nn.Linear):
                linears.append(LinearBlock(one.name, layer.in_features, layer.out_features, layer.bias is not None))
            elif not isinstance(layer, nn.Flatten):
                return None
        usable = linears and not linears[-1].relu and len(spec.image) == 3
        return cls(blocks, linears) if usable else None

    @property
    def pixels(self) -> int:
        """The number of values of an image."""
        first = self.convolutions[0] if self.convolutions else None
        return first.inputs * first.height * first.width if first else self.linears[0].inputs


def _tile(layer: nn.MaxPool2d) -> int:
    """The size of a max-pooling over squares side by side; 0 for any other one."""
    kernel, stride, padding, dilation = (
        n if isinstance(n, tuple) else (n, n) for n in (layer.kernel_size, layer.stride, layer.padding, layer.dilation)
    )
    size: int = kernel[0]
    plain = (kernel, stride, padding, dilation) == ((size, size), (size, size), (0, 0), (1, 1))
    return size if plain and not layer.ceil_mode else 0
