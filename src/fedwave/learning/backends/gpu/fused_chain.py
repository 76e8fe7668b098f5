"""Local training of small chains on a GPU by one kernel: a thread block trains one model, all its steps.

A convolutional network of some ten thousand parameters is too small for one kernel per layer: its activations, a few
hundred kilobytes a sample, would go through the GPU's memory many times. Here they stay on the chip, and a whole round
of all lanes is one launch. fused_chain.cu has the layers; this file generates the kernels of a model.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from fedwave.learning.backends.gpu.blocks import ChainBlocks, LinearBlock
from fedwave.learning.backends.gpu.cuda_source import Kernels, compiled_kernels
from fedwave.learning.backends.gpu.wide_ops import ConvBlock, SgdRule
from fedwave.learning.model_rows import Layout

_SOURCE = Path(__file__).with_name("fused_chain.cu")
_THREADS = 640  # of a block; a multiple of 32
_LARGEST_BATCH = 32  # a thread holds one number of every sample
_LARGEST_PATCH = 64  # a thread holds the pixels that one window depends on
_LARGEST_SCRATCH = 2**20  # bytes of a block outside of the shared memory: more would leave the cache
_EVALUATION_BLOCKS = 1500
_PLACES = "  // places"


class FusedChain:
    """The kernels of one model and batch size; made by ``of``."""

    def __init__(self, blocks: ChainBlocks, layout: Layout, batch: int, memory: int) -> None:
        self._blocks, self._layout, self._pixels, self._batch = blocks, layout, blocks.pixels, batch
        self._arrays: dict[str, tuple[int, str]] = {}  # numbers, and their type
        body = self._generated()
        self.shared_bytes, self.scratch_bytes, places = self._placed(memory)
        self.source = body.replace(_PLACES, places)

    @classmethod
    def of(cls, blocks: ChainBlocks, layout: Layout, batch: int, memory: int) -> FusedChain | None:
        """The kernels, or None if the layers are not small and plain.

        ``memory`` is the shared memory of a block, in bytes. Arrays that do not fit go through the cache.
        """
        convolutions = blocks.convolutions
        plain = all((c.padding, c.stride, c.norm) == (0, 1, "") for c in convolutions)
        patch = max(((c.kernel + c.pool - 1) ** 2 for c in convolutions), default=0)
        weights = sum(_weights(c) for c in convolutions)
        if not plain or batch > _LARGEST_BATCH or patch > _LARGEST_PATCH or weights * 12 > memory:
            return None
        made = cls(blocks, layout, batch, memory)
        return made if made.scratch_bytes <= _LARGEST_SCRATCH else None

    @cached_property
    def _kernels(self) -> Kernels:
        return compiled_kernels(self.source)

    def train(
        self, w: Tensor, start: Tensor, data: tuple[Tensor, Tensor], samples: Tensor, steps: Tensor, rule: SgdRule
    ) -> None:
        """Train all lanes in place on images and labels; ``steps`` has the number of steps of every lane."""
        grid = (len(steps), 1)
        self._launch("train", grid, w, start, *data, samples, steps, samples.shape[1], *rule)

    def logits(self, w: Tensor, images: Tensor) -> Tensor:
        """The logits ``[model, image, class]`` of every model on every image."""
        out = torch.empty(len(w), len(images), self._blocks.linears[-1].outputs, device=w.device)
        # Enough blocks for all multiprocessors, and few enough that each loads the weights for many images.
        most = max(1, _EVALUATION_BLOCKS // len(w))
        each = -(-len(images) // most // self._batch) * self._batch + self._batch
        self._launch("judge", (len(w), -(-len(images) // each)), w, images, len(images), each, out)
        return out

    def _launch(self, name: str, grid: tuple[int, int], w: Tensor, *arguments: Tensor | int | float) -> None:
        scratch = torch.empty(grid[0] * grid[1] * self.scratch_bytes // 4, device=w.device)
        self._kernels.launch(name, grid, _THREADS, scratch, w, *arguments, shared=self.shared_bytes)

    # The source: structs of the layers, then two kernels that call them in turn.

    def _generated(self) -> str:
        batch, padded = self._batch, -(-self._batch // 4) * 4
        convs, linears = self._blocks.convolutions, self._blocks.linears
        self._take("chosen", batch, "int")
        stride = _stride(self._pixels)
        self._take("images", batch * stride)
        structs, forward, setup, store, backward = [], [], [], [], []
        x = "images"
        for i, c in enumerate(convs):
            groups = [_group(c.outputs), _group(c.inputs), _weight_group(c)]
            made = _stride(c.out_shape[0] * c.out_shape[1] * c.out_shape[2])
            numbers = [batch, c.inputs, c.height, c.width, c.outputs, c.kernel, c.pool]
            listed = ", ".join(map(str, [*numbers, str(c.relu).lower(), *groups, stride, made]))
            structs.append(f"using Conv{i} = Conv<{listed}>;")
            stride = made
            self._take(f"y{i}", batch * stride)
            self._take(f"places{i}", -(-batch * stride // 4), "unsigned char")
            self._take(f"w{i}", _weights(c))
            self._take(f"back{i}", _weights(c) if i else 0)
            self._take(f"bias{i}", c.outputs)
            back = f"back{i}" if i else "nullptr"
            setup.append(f"load_weights<Conv{i}>(w + {self._at(c, 'weight')}, w{i}, {back});")
            first = f"w[{self._at(c, 'bias')} + i]" if c.has_bias else "0.0f"
            each = f"for (int i = threadIdx.x; i < {c.outputs}; i += THREADS)"
            setup.append(f"{each} bias{i}[i] = {first};")
            store.append(f"store_weights<Conv{i}>(w + {self._at(c, 'weight')}, w{i});")
            if c.has_bias:
                store.append(f"{each} w[{self._at(c, 'bias')} + i] = bias{i}[i];")
            forward.append(f"conv_forward<Conv{i}>({x}, w{i}, bias{i}, y{i}, places{i});")
            x = f"y{i}"
        self._take("of_weights", max((_weights(c) for c in convs), default=0))
        self._take("of_bias", max((c.outputs for c in convs), default=0))
        strides = []
        for j, p in enumerate(linears):
            self._take(f"f{j}", batch * p.outputs)
            self._take(f"df{j}", padded * p.outputs)
            strides.append(stride)
            sizes = f"{batch}, {p.inputs}, {stride}, {p.outputs}, {str(p.relu).lower()}"
            stride = p.outputs
            own = self._in_place(p)
            forward.append(f"linear_forward<{sizes}>({x}, {own[0]}, {own[1]}, f{j});")
            x = f"f{j}"
        classes = linears[-1].outputs
        top = len(linears) - 1
        backward.append(f"loss_gradient<{batch}, {padded}, {classes}>(f{top}, chosen, labels, df{top});")
        for j, p in reversed(list(enumerate(linears))):
            before = f"f{j - 1}" if j else (f"y{len(convs) - 1}" if convs else "images")
            to = f"df{j - 1}" if j else (before if convs else "nullptr")
            winner = f"places{len(convs) - 1}" if not j and convs else "nullptr"
            cut = convs[-1].pool ** 2 if convs else 0
            flags = [bool(j), bool(j) and linears[j - 1].relu, not (j or convs)]
            sizes = ", ".join(map(str, [batch, padded, p.inputs, strides[j], p.outputs]))
            sizes += "".join(f", {str(flag).lower()}" for flag in flags)
            own = self._in_place(p)
            starts = ", ".join(v.replace("w +", "start +") for v in own)
            backward.append(
                f"linear_backward<{sizes}>({before}, df{j}, {own[0]}, {own[1]}, {starts}, {to}, {winner}, {cut}, rule);"
            )
        for i, c in reversed(list(enumerate(convs))):
            before = f"y{i - 1}" if i else "images"
            backward.append(f"conv_weight_gradient<Conv{i}>({before}, y{i}, places{i}, of_weights, of_bias);")
            if i:
                cut = convs[i - 1].pool ** 2
                backward.append(
                    f"conv_input_gradient<Conv{i}>(y{i}, places{i}, back{i}, {before}, places{i - 1}, {cut});"
                )
            start_bias = f"start + {self._at(c, 'bias')}" if c.has_bias else "nullptr"
            backward.append(
                f"conv_update<Conv{i}>(of_weights, of_bias, start + {self._at(c, 'weight')}, {start_bias}, w{i}, "
                f"{f'back{i}' if i else 'nullptr'}, {f'bias{i}' if c.has_bias else 'nullptr'}, rule);"
            )
        return f"""
#define THREADS {_THREADS}
{_SOURCE.read_text()}
{chr(10).join(structs)}

extern "C" __global__ void __launch_bounds__(THREADS, 1) train(
    float* scratch, float* all, const float* starts, const float* pictures, const long long* labels, const int* samples,
    const int* steps, int lanes, float eta, float decay, float pull) {{
  extern __shared__ __align__(16) float shared[];
{_PLACES}
  float* w = all + (long long)blockIdx.x * {self._layout.size};
  const float* start = starts + (long long)blockIdx.x * {self._layout.size};
  Rule rule = {{eta, decay, pull}};
  {_lines(setup)}
  int count = steps[blockIdx.x];
#pragma unroll 1
  for (int step = 0; step < count; ++step) {{
    __syncthreads();
    const int* mine = samples + ((long long)step * lanes + blockIdx.x) * {batch};
    if (threadIdx.x < {batch}) chosen[threadIdx.x] = mine[threadIdx.x];
    __syncthreads();
    load_images<{batch}, {self._pixels}, {_stride(self._pixels)}>(pictures, chosen, images);
    {_synchronised([*forward, *backward])}
  }}
  __syncthreads();
  {_lines(store)}
}}

extern "C" __global__ void __launch_bounds__(THREADS, 1) judge(
    float* scratch, float* all, const float* pictures, int pictures_in_all, int pictures_per_block, float* logits) {{
  extern __shared__ __align__(16) float shared[];
{_PLACES}
  float* w = all + (long long)blockIdx.x * {self._layout.size};
  {_lines(setup)}
  int end = min(pictures_in_all, (blockIdx.y + 1) * pictures_per_block);
#pragma unroll 1
  for (int first = blockIdx.y * pictures_per_block; first < end; first += {batch}) {{
    __syncthreads();
    if (threadIdx.x < {batch}) chosen[threadIdx.x] = first + threadIdx.x < end ? first + threadIdx.x : -1;
    __syncthreads();
    load_images<{batch}, {self._pixels}, {_stride(self._pixels)}>(pictures, chosen, images);
    {_synchronised(forward)}
    __syncthreads();
    for (int i = threadIdx.x; i < {batch * classes}; i += THREADS)
      if (chosen[i / {classes}] >= 0)
        logits[((long long)blockIdx.x * pictures_in_all + first) * {classes} + i] = f{top}[i];
  }}
}}
"""

    def _take(self, name: str, numbers: int, kind: str = "float") -> None:
        """An array of the block, in units of four bytes."""
        self._arrays[name] = (-(-numbers // 4) * 4, kind)

    def _placed(self, memory: int) -> tuple[int, int, str]:
        """Bytes of shared memory and of scratch memory, and where each array lies."""
        shared = sum(numbers for numbers, _ in self._arrays.values())
        outside = set[str]()
        for name in sorted(self._arrays, key=lambda name: -self._arrays[name][0]):
            # Weights stay: they are read most often.
            if shared * 4 > memory and not name.startswith(("w", "back", "of_")):
                outside.add(name)
                shared -= self._arrays[name][0]
        first, lines = {True: 0, False: 0}, []
        scratch = sum(self._arrays[name][0] for name in outside)
        block = f"(blockIdx.y * (long long)gridDim.x + blockIdx.x) * {scratch}"
        for name, (numbers, kind) in self._arrays.items():
            out = name in outside
            at = f"scratch + {block} + {first[out]}" if out else f"shared + {first[out]}"
            lines.append(f"  {kind}* {name} = reinterpret_cast<{kind}*>({at});")
            first[out] += numbers
        return shared * 4, scratch * 4, "\n".join(lines)

    def _at(self, part: ConvBlock | LinearBlock, which: str) -> int:
        return self._layout.first(f"{part.name}.{which}") if which == "weight" or part.has_bias else 0

    def _in_place(self, part: LinearBlock) -> tuple[str, str]:
        bias = f"w + {self._at(part, 'bias')}" if part.has_bias else "(float*)nullptr"
        return f"w + {self._at(part, 'weight')}", bias


def _weights(c: ConvBlock) -> int:
    return c.outputs * c.inputs * c.kernel**2


def _stride(numbers: int) -> int:
    """Numbers from one sample to the next: a multiple of four, such that samples lie in different memory banks."""
    return -(-numbers // 32) * 32 + 4


def _group(channels: int) -> int:
    """How many channels a thread computes at once."""
    return next(n for n in (5, 8, 4, 6, 3, 2, 1) if channels % n == 0)


def _weight_group(c: ConvBlock) -> int:
    """How many kernels' gradients a thread computes at once; fewer if there would be too few threads."""
    fits = [n for n in (5, 4, 3, 2) if c.outputs % n == 0 and c.outputs // n * c.inputs * c.kernel >= _THREADS // 4]
    return fits[0] if fits else 1


def _lines(calls: list[str]) -> str:
    return "\n  ".join(calls)


def _synchronised(calls: list[str]) -> str:
    return "\n    ".join(f"__syncthreads();\n    {call}" for call in calls)
