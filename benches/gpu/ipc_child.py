"""The other process of `benches.gpu.interop`: opens device memory by its handle, reads it and writes to it."""

from __future__ import annotations

import ctypes
import sys

from benches.gpu.driver import Driver, IpcHandle
from benches.gpu.timing import milliseconds

_LAZY_PEER_ACCESS = 1


def main() -> int:
    """Prints the outcome."""
    handle, size = IpcHandle.from_buffer_copy(bytes.fromhex(sys.argv[1])), int(sys.argv[2])
    driver, pointer = Driver(), ctypes.c_uint64()
    opened = milliseconds(
        lambda: driver.call("cuIpcOpenMemHandle_v2", ctypes.byref(pointer), handle, ctypes.c_uint(_LAZY_PEER_ACCESS))
    )
    content = driver.read(pointer, size)
    is_right = content == bytes(range(256)) * (size // 256)
    driver.write(pointer, b"done")
    closed = milliseconds(lambda: driver.call("cuIpcCloseMemHandle", pointer))
    print(f"opened in {opened:.3f} ms, closed in {closed:.3f} ms, the content is right: {is_right}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
