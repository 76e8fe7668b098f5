"""Local training of small chains on a GPU by one kernel: a thread block trains one model, all its steps.

A convolutional network of some ten thousand parameters is too small for one kernel per layer: its activations, a few
hundred kilobytes a sample, would go through the GPU's memory many times. Here they stay on the chip, and a whole round
of all lanes is one launch. fused_chain.cu has the layers; this file fits them to a model.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fedwave.learning.batched_layers import chain_of
from fedwave.learning.cuda_source import Kernels
from fedwave.learning.layout import Layout

_SOURCE = Path(__file__).with_name("fused_chain.cu")
_THREADS = 640  # of a block; a multiple of 32
_REGISTERS_PER_PATCH = 64  # a thread holds the pixels that one window depends on


@dataclass(frozen=True)
class _Convolution:
    """A convolution with the pooling and the ReLU after it."""

    name: str
    inputs: int
    height: int
    width: int
    outputs: int
    kernel: int
    has_bias: bool
    pool: int = 1
    relu: bool = False

    @cached_property
    def out_shape(self) -> tuple[int, int, int]:
        rows, columns = (n - self.kernel + 1 for n in (self.height, self.width))
        return self.outputs, rows // self.pool, columns // self.pool

    @property
    def weights(self) -> int:
        return self.outputs * self.inputs * self.kernel**2


@dataclass(frozen=True)
class _Linear:
    """A linear layer with the ReLU after it."""

    name: str
    inputs: int
    outputs: int
    has_bias: bool
    relu: bool = False


def _parts(model: nn.Module, image: tuple[int, ...]) -> list[_Convolution | _Linear] | None:
    """The model as convolutions and linear layers, or None if it has other layers."""
    layers = chain_of(model)
    if layers is None or len(image) != 3:
        return None
    shape, parts, flat = image, list[Any](), False
    for name, layer in layers:
        last = parts[-1] if parts else None
        trained = all(p.requires_grad for p in layer.parameters())
        if isinstance(layer, nn.Conv2d) and trained:
            kernel = layer.kernel_size[0]
            plain = (
                layer.kernel_size == (kernel, kernel)
                and layer.stride == (1, 1)
                and layer.padding == (0, 0)
                and layer.dilation == (1, 1)
            )
            if not plain or min(shape[1:]) < kernel:
                return None
            made = _Convolution(name, *shape, layer.out_channels, kernel, layer.bias is not None)
            parts.append(made)
            shape = made.out_shape
        elif isinstance(layer, nn.MaxPool2d) and isinstance(last, _Convolution) and last.pool == 1:
            made = _Convolution(**{**_fields(last), "pool": _plain_pool(layer)})
            if made.pool == 0 or min(made.out_shape) < 1:
                return None
            parts[-1], shape = made, made.out_shape
        elif isinstance(layer, nn.ReLU) and last is not None:
            parts[-1] = type(last)(**{**_fields(last), "relu": True})
        elif isinstance(layer, nn.Flatten) and not flat:
            flat = True
        elif isinstance(layer, nn.Linear) and trained:
            parts.append(
                _Linear(name, layer.in_features, layer.out_features, layer.bias is not None)
            )
        else:
            return None
    if not parts or not isinstance(parts[-1], _Linear) or parts[-1].relu:
        return None
    return parts


def _fields(part: Any) -> dict[str, Any]:
    return {name: getattr(part, name) for name in part.__dataclass_fields__}


def _plain_pool(layer: nn.MaxPool2d) -> int:
    """The size of a max-pooling of squares side by side; 0 if it is another one."""
    sizes = [n if isinstance(n, tuple) else (n, n) for n in (layer.kernel_size, layer.stride)]
    size = sizes[0][0]
    plain = sizes == [(size, size)] * 2 and not layer.padding and not layer.ceil_mode
    return size if plain and layer.dilation == 1 and size > 1 else 0


class FusedChain:
    """The kernels of one model and batch size; ``of`` says whether there are any."""

    def __init__(
        self, parts: list[_Convolution | _Linear], layout: Layout, pixels: int, batch: int
    ) -> None:
        self._parts, self._layout, self._pixels, self._batch = parts, layout, pixels, batch
        self._places: dict[str, tuple[int, int, str]] = {}  # in shared memory
        self.shared_bytes = 0
        self.source = self._generated()

    @classmethod
    def of(
        cls, model: nn.Module, layout: Layout, image: tuple[int, ...], batch: int, memory: int
    ) -> FusedChain | None:
        """The kernels, if the model's layers are known and a batch fits into ``memory`` bytes of a block."""
        parts = _parts(model, image)
        if parts is None or batch > 32:
            return None
        pixels = image[0] * image[1] * image[2]
        made = cls(parts, layout, pixels, batch)
        wide = max(
            ((p.kernel + p.pool - 1) ** 2 for p in parts if isinstance(p, _Convolution)), default=0
        )
        fits = made.shared_bytes <= memory and wide <= _REGISTERS_PER_PATCH
        return made if fits else None

    @cached_property
    def _kernels(self) -> Kernels:
        return Kernels(self.source)

    def train(
        self,
        w: Tensor,
        start: Tensor,
        images: Tensor,
        labels: Tensor,
        samples: Tensor,
        steps: Tensor,
        rule: tuple[float, float, float],
    ) -> None:
        """All steps of all lanes, in place. ``steps`` has the number of steps of every lane."""
        lanes = len(steps)
        self._kernels.launch(
            "train", (lanes, 1), _THREADS, w, start, images, labels, samples, steps,
            samples.shape[1], *rule, shared=self.shared_bytes,
        )  # fmt: skip

    def logits(self, w: Tensor, images: Tensor, out: Tensor) -> None:
        """The logits ``[model, image, class]`` of every model on every image."""
        images_per_block = 20 * self._batch
        blocks = -(-len(images) // images_per_block)
        self._kernels.launch(
            "judge", (len(w), blocks), _THREADS, w, images, len(images), images_per_block, out,
            shared=self.shared_bytes,
        )  # fmt: skip

    # The source: structs of the layers, then two kernels that call them in turn.

    def _generated(self) -> str:
        batch, padded = self._batch, -(-self._batch // 4) * 4
        convs = [p for p in self._parts if isinstance(p, _Convolution)]
        linears = [p for p in self._parts if isinstance(p, _Linear)]
        self._take("chosen", batch)
        self._take("images", batch * self._pixels)
        structs, forward, setup, store, backward = [], [], [], [], []
        x = "images"
        for i, c in enumerate(convs):
            groups = [_group(c.outputs), _group(c.inputs), _weight_group(c)]
            numbers = [batch, c.inputs, c.height, c.width, c.outputs, c.kernel, c.pool]
            listed = ", ".join(map(str, [*numbers, str(c.relu).lower(), *groups]))
            structs.append(f"using Conv{i} = Conv<{listed}>;")
            out = batch * c.out_shape[0] * c.out_shape[1] * c.out_shape[2]
            self._take(f"y{i}", out)
            self._take(f"winner{i}", -(-out // 4), "unsigned char")
            self._take(f"w{i}", c.weights)
            self._take(f"back{i}", c.weights if i else 0)
            self._take(f"bias{i}", c.outputs)
            back = f"back{i}" if i else "nullptr"
            setup.append(f"load_weights<Conv{i}>(w + {self._at(c, 'weight')}, w{i}, {back});")
            own = f"w[{self._at(c, 'bias')} + i]" if c.has_bias else "0.0f"
            each = f"for (int i = threadIdx.x; i < {c.outputs}; i += THREADS)"
            setup.append(f"{each} bias{i}[i] = {own};")
            store.append(f"store_weights<Conv{i}>(w + {self._at(c, 'weight')}, w{i});")
            if c.has_bias:
                store.append(f"{each} w[{self._at(c, 'bias')} + i] = bias{i}[i];")
            forward.append(f"conv_forward<Conv{i}>({x}, w{i}, bias{i}, y{i}, winner{i});")
            x = f"y{i}"
        self._take("of_weights", max((c.weights for c in convs), default=0))
        self._take("of_bias", max((c.outputs for c in convs), default=0))
        for j, p in enumerate(linears):
            self._take(f"f{j}", batch * p.outputs)
            self._take(f"df{j}", padded * p.outputs)
            sizes = f"{batch}, {p.inputs}, {p.outputs}, {str(p.relu).lower()}"
            own = self._in_place(p)
            forward.append(f"linear_forward<{sizes}>({x}, {own[0]}, {own[1]}, f{j});")
            x = f"f{j}"
        classes = linears[-1].outputs
        top = len(linears) - 1
        backward.append(
            f"loss_gradient<{batch}, {padded}, {classes}>(f{top}, chosen, labels, df{top});"
        )
        for j, p in reversed(list(enumerate(linears))):
            before = f"f{j - 1}" if j else (f"y{len(convs) - 1}" if convs else "images")
            out = f"df{j - 1}" if j else (before if convs else "nullptr")
            winner = f"winner{len(convs) - 1}" if not j and convs else "nullptr"
            cut = convs[-1].pool ** 2 if convs else 0
            flags = [bool(j), bool(j) and linears[j - 1].relu, not (j or convs)]
            sizes = ", ".join(map(str, [batch, padded, p.inputs, p.outputs]))
            sizes += "".join(f", {str(flag).lower()}" for flag in flags)
            own = self._in_place(p)
            starts = ", ".join(v.replace("w +", "start +") for v in own)
            backward.append(
                f"linear_backward<{sizes}>({before}, df{j}, {own[0]}, {own[1]}, {starts}, {out}, {winner}, {cut}, rule);"
            )
        for i, c in reversed(list(enumerate(convs))):
            before = f"y{i - 1}" if i else "images"
            backward.append(
                f"conv_weight_gradient<Conv{i}>({before}, y{i}, winner{i}, of_weights, of_bias);"
            )
            if i:
                cut = convs[i - 1].pool ** 2
                backward.append(
                    f"conv_input_gradient<Conv{i}>(y{i}, winner{i}, back{i}, {before}, winner{i - 1}, {cut});"
                )
            start_bias = f"start + {self._at(c, 'bias')}" if c.has_bias else "nullptr"
            backward.append(
                f"conv_update<Conv{i}>(of_weights, of_bias, start + {self._at(c, 'weight')}, {start_bias}, w{i}, "
                f"{f'back{i}' if i else 'nullptr'}, {f'bias{i}' if c.has_bias else 'nullptr'}, rule);"
            )
        names = "\n".join(
            f"  {kind}* {name} = reinterpret_cast<{kind}*>(shared + {first});"
            for name, (first, _, kind) in self._places.items()
        )
        return f"""
#define THREADS {_THREADS}
{_SOURCE.read_text()}
{chr(10).join(structs)}

extern "C" __global__ void __launch_bounds__(THREADS, 1) train(
    float* all, const float* starts, const float* pictures, const long long* labels, const int* samples,
    const int* steps, int lanes, float eta, float keep, float pull) {{
  extern __shared__ __align__(16) float shared[];
{names}
  float* w = all + (long long)blockIdx.x * {self._layout.size};
  const float* start = starts + (long long)blockIdx.x * {self._layout.size};
  Rule rule = {{eta, keep, pull}};
  {_lines(setup)}
  int count = steps[blockIdx.x];
#pragma unroll 1
  for (int step = 0; step < count; ++step) {{
    __syncthreads();
    if (threadIdx.x < {batch}) chosen[threadIdx.x] = samples[((long long)step * lanes + blockIdx.x) * {batch} + threadIdx.x];
    __syncthreads();
    load_images<{batch}, {self._pixels}>(pictures, chosen, images);
    {_synchronised([*forward, *backward])}
  }}
  __syncthreads();
  {_lines(store)}
}}

extern "C" __global__ void __launch_bounds__(THREADS, 1) judge(
    float* all, const float* pictures, int pictures_in_all, int pictures_per_block, float* logits) {{
  extern __shared__ __align__(16) float shared[];
{names}
  float* w = all + (long long)blockIdx.x * {self._layout.size};
  {_lines(setup)}
  int end = min(pictures_in_all, (blockIdx.y + 1) * pictures_per_block);
#pragma unroll 1
  for (int first = blockIdx.y * pictures_per_block; first < end; first += {batch}) {{
    __syncthreads();
    if (threadIdx.x < {batch}) chosen[threadIdx.x] = first + threadIdx.x < end ? first + threadIdx.x : -1;
    __syncthreads();
    load_images<{batch}, {self._pixels}>(pictures, chosen, images);
    {_synchronised(forward)}
    __syncthreads();
    for (int i = threadIdx.x; i < {batch * classes}; i += THREADS)
      if (chosen[i / {classes}] >= 0)
        logits[((long long)blockIdx.x * pictures_in_all + first) * {classes} + i] = f{top}[i];
  }}
}}
"""

    def _take(self, name: str, numbers: int, kind: str = "") -> None:
        """Reserve shared memory, in units of four bytes."""
        kind = kind or ("int" if name == "chosen" else "float")
        self._places[name] = (self.shared_bytes // 4, numbers, kind)
        self.shared_bytes += -(-numbers // 4) * 16

    def _at(self, part: _Convolution | _Linear, which: str) -> int:
        return self._layout.first(f"{part.name}.{which}") if which == "weight" or part.has_bias else 0

    def _in_place(self, part: _Linear) -> tuple[str, str]:
        bias = f"w + {self._at(part, 'bias')}" if part.has_bias else "(float*)nullptr"
        return f"w + {self._at(part, 'weight')}", bias


def _group(channels: int) -> int:
    """How many channels a thread computes at once."""
    return next(n for n in (5, 8, 4, 6, 3, 2, 1) if channels % n == 0)


def _weight_group(c: _Convolution) -> int:
    """How many kernels' gradients a thread computes at once; fewer if there would be too few threads."""
    fits = [
        n for n in (5, 4, 3, 2)
        if c.outputs % n == 0 and c.outputs // n * c.inputs * c.kernel >= _THREADS // 4
    ]  # fmt: skip
    return fits[0] if fits else 1


def _lines(calls: list[str]) -> str:
    return "\n  ".join(calls)


def _synchronised(calls: list[str]) -> str:
    return "\n    ".join(f"__syncthreads();\n    {call}" for call in calls)
