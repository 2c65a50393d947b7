"""Calls of the CUDA driver, `libcuda`, by ctypes."""

from __future__ import annotations

import ctypes
from typing import Any


class IpcHandle(ctypes.Structure):
    """`CUipcMemHandle`, which names device memory for another process."""

    _fields_ = [("reserved", ctypes.c_char * 64)]


class Driver:
    """The driver, with the primary context of device 0 current on this thread."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, function: str, *arguments: Any) -> None:
        """Calls a function.

        Raises:
            RuntimeError: it did not return CUDA_SUCCESS; with the error's name.
        """
        code = getattr(self._library, function)(*arguments)
        if code:
            name = ctypes.c_char_p()
            self._library.cuGetErrorName(code, ctypes.byref(name))
            raise RuntimeError(f"{function}: {(name.value or b'unknown').decode()} ({code})")

    def allocate(self, size: int) -> ctypes.c_uint64:
        """Device memory."""
        pointer = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        return pointer

    def write(self, pointer: ctypes.c_uint64, content: bytes) -> None:
        """Copies to the device."""
        self.call("cuMemcpyHtoD_v2", pointer, content, ctypes.c_size_t(len(content)))

    def read(self, pointer: ctypes.c_uint64, size: int) -> bytes:
        """Copies from the device."""
        content = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", content, pointer, ctypes.c_size_t(size))
        return content.raw
