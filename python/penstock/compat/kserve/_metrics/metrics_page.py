"""`/metrics` with what the script itself keeps in prometheus_client beside the server's own."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from typing import Any

from penstock import AsyncClient

__all__ = ["CONTENT_TYPE", "Exposition"]

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
END = "# EOF"
VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""Where prometheus_client's processes keep what one of them shows."""


class Exposition:
    """The page of metrics of a script that has imported prometheus_client; of any other it is the server's own.

    Attributes:
        wanted: Whether there is anything to add to the server's page.
    """

    def __init__(self) -> None:
        self.wanted = "prometheus_client" in sys.modules
        self._folder = tempfile.mkdtemp(prefix="penstock-kserve-") if self.wanted else ""
        self._client: AsyncClient | None = None
        self._address = ""

    @property
    def address(self) -> str:
        """Where the server's own page is to be served for this one."""
        return f"unix:{self._folder}/metrics"

    def environment(self) -> dict[str, str]:
        """What workers need in their environment, so that this process sees what they keep."""
        return {VARIABLE: self._folder} if self.wanted else {}

    def begins(self, address: str | None) -> None:
        """Tells where the server's own page is served."""
        self._address = address or self.address

    def close(self) -> None:
        """Lets go of what was kept."""
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    async def page(self) -> str:
        """The whole page."""
        if self._client is None:
            here = self._address if self._address.startswith("unix:") else f"http://{self._address}"
            self._client = AsyncClient(here)
        answer = await self._client.request("GET", "/metrics")
        own = bytes(answer.body).decode().rstrip().removesuffix(END)
        return own + self._kept()

    def _kept(self) -> str:
        from prometheus_client import REGISTRY, CollectorRegistry, multiprocess
        from prometheus_client.openmetrics.exposition import generate_latest

        found: dict[str, Any] = {}
        if any(name.endswith(".db") for name in os.listdir(self._folder)):
            workers = CollectorRegistry()
            multiprocess.MultiProcessCollector(workers, path=self._folder)  # type: ignore[no-untyped-call]
            found = {family.name: family for family in workers.collect()}
        # What workers count is counted there: this process has the same names, and nothing in them.
        for family in REGISTRY.collect():
            found.setdefault(family.name, family)

        class Families:
            def collect(self) -> Any:
                return found.values()

        shown: bytes = generate_latest(Families())  # type: ignore[no-untyped-call]
        return shown.decode()
