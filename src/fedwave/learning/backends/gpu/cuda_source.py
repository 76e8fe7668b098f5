"""Compiles CUDA source text to kernels that take torch tensors.

The compiler is NVRTC, which comes with torch: it takes a second, and needs no toolkit on the machine.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

_USUAL_SHARED_MEMORY = 48 * 1024  # bytes of a block; more must be asked for
_ALLOW_MORE_SHARED_MEMORY = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


@lru_cache(maxsize=1)
def can_compile() -> bool:
    """Are the compiler and a CUDA driver installed?"""
    try:
        _compiler()
        ctypes.CDLL("libcuda.so.1")
    except (OSError, RuntimeError):
        return False
    return torch.version.cuda is not None


@lru_cache(maxsize=32)
def compiled_kernels(source: str) -> Kernels:
    """The kernels of a source text; compiled once."""
    return Kernels(source)


class Kernels:
    """The kernels of one source text, compiled for the present GPU."""

    def __init__(self, source: str) -> None:
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._functions: dict[str, ctypes.c_void_p] = {}
        torch.cuda.current_stream()  # makes torch's context the current one
        self._module = ctypes.c_void_p()
        binary = _binary(source)
        self._check(self._driver.cuModuleLoadData(ctypes.byref(self._module), binary))

    def launch(
        self, name: str, grid: tuple[int, int], threads: int, *arguments: Tensor | int | float | None, shared: int = 0
    ) -> None:
        """Run a kernel on torch's stream. Tensors are passed as pointers, ints as int, floats as float.

        ``shared`` is the size of the shared memory that a block gets, in bytes.
        """
        values = [_argument(a) for a in arguments]
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        size = (*grid, 1, threads, 1, 1, shared)
        self._check(self._driver.cuLaunchKernel(self._function(name, shared), *size, stream, pointers, None))

    def _function(self, name: str, shared: int) -> ctypes.c_void_p:
        if name not in self._functions:
            found = ctypes.c_void_p()
            self._check(self._driver.cuModuleGetFunction(ctypes.byref(found), self._module, name.encode()))
            if shared > _USUAL_SHARED_MEMORY:
                self._check(self._driver.cuFuncSetAttribute(found, _ALLOW_MORE_SHARED_MEMORY, shared))
            self._functions[name] = found
        return self._functions[name]

    def _check(self, code: int) -> None:
        if code:
            text = ctypes.c_char_p()
            self._driver.cuGetErrorString(code, ctypes.byref(text))
            raise RuntimeError(f"CUDA error {code}: {(text.value or b'unknown').decode()}")


def _binary(source: str) -> bytes:
    """The machine code of a source text for the present GPU."""
    compiler = _compiler()
    program = ctypes.c_void_p()
    compiler.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"fedwave.cu", 0, None, None)
    major, minor = torch.cuda.get_device_capability()
    options = [f"--gpu-architecture=sm_{major}{minor}".encode(), b"--std=c++17"]
    listed = (ctypes.c_char_p * len(options))(*options)
    if compiler.nvrtcCompileProgram(program, len(options), listed):
        size = ctypes.c_size_t()
        compiler.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        compiler.nvrtcGetProgramLog(program, log)
        raise RuntimeError(f"the CUDA source does not compile:\n{log.value.decode()}")
    size = ctypes.c_size_t()
    compiler.nvrtcGetCUBINSize(program, ctypes.byref(size))
    binary = ctypes.create_string_buffer(size.value)
    compiler.nvrtcGetCUBIN(program, binary)
    compiler.nvrtcDestroyProgram(ctypes.byref(program))
    return binary.raw


def _compiler() -> ctypes.CDLL:
    major = str(torch.version.cuda).split(".")[0]
    name = f"libnvrtc.so.{major}"
    # Beside torch, if the packages brought it, or where the system finds it.
    beside = Path(torch.__file__).parents[1].glob(f"nvidia/*/lib/{name}")
    for place in [*map(str, beside), name]:
        try:
            return ctypes.CDLL(place)
        except OSError:
            continue
    raise RuntimeError(f"{name} is missing.")


def _argument(value: Tensor | int | float | None) -> Any:
    if value is None:
        return ctypes.c_void_p(0)
    if isinstance(value, Tensor):
        return ctypes.c_void_p(value.data_ptr())
    return ctypes.c_int(value) if isinstance(value, int) else ctypes.c_float(value)
