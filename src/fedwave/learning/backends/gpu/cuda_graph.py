"""Records the kernels of a step once for each number of lanes (a CUDA graph), and then starts them by one call.

Without this, starting two hundred small kernels takes the CPU longer than a few lanes take the GPU.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

# (the model in each place, below zero where it is idle; the samples of each place)
StepBody = Callable[[Tensor, Tensor], None]


class StepGraphs:
    """Recorded steps of up to ``width`` places; they share their memory, since they run one after another."""

    def __init__(self, width: int, batch: int, device: torch.device) -> None:
        room = -(-width // 32) * 32
        self._chosen = torch.zeros(room, batch, dtype=torch.int32, device=device)
        self._models = torch.full((room,), -1, dtype=torch.int32, device=device)
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._pool = torch.cuda.graph_pool_handle()
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self._addresses: list[tuple[int, torch.Size]] = []

    def begin(self, state: list[Tensor]) -> None:
        """Drop the recordings if the state that they change has moved; that waits for the GPU."""
        addresses = [(t.data_ptr(), t.shape) for t in state]
        if addresses != self._addresses:
            torch.cuda.current_stream().synchronize()  # the last recording may still run
            self._graphs, self._addresses = {}, addresses
            self._pool = torch.cuda.graph_pool_handle()  # the old one is gone with the recordings
            # During a recording torch cannot return memory that it keeps, such as that of the old recordings.
            torch.cuda.empty_cache()

    def __call__(self, size: int, chosen: Tensor, models: Tensor, body: StepBody) -> None:
        """One step of ``size`` places."""
        if size not in self._graphs:
            self._graphs[size] = self._recorded(size, body)
        self._chosen[:size].copy_(chosen[:size])
        self._models[:size].copy_(models[:size])
        self._graphs[size].replay()

    def _recorded(self, size: int, body: StepBody) -> torch.cuda.CUDAGraph:
        # Run once with all places idle: libraries choose and load their kernels, and no model changes.
        self._models.fill_(-1)
        body(self._models, self._chosen[:size])
        graph = torch.cuda.CUDAGraph()
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            graph.capture_begin(pool=self._pool)
            body(self._models, self._chosen[:size])
            graph.capture_end()
        torch.cuda.current_stream().wait_stream(self._stream)
        return graph
