"""`/metrics`: the server's own metrics and those that the script keeps in prometheus_client."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Set
from typing import Any

from penstock import AsyncClient

__all__ = ["MetricsPage"]

END = "# EOF"
VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""The folder in which prometheus_client's processes share their values."""


class MetricsPage:
    """The metrics page of a script that has imported prometheus_client.

    Attributes:
        wanted: Whether the script has metrics to add to the server's page.
    """

    def __init__(self) -> None:
        self.wanted = "prometheus_client" in sys.modules
        self._folder = tempfile.mkdtemp(prefix="penstock-kserve-") if self.wanted else ""
        self._client: AsyncClient | None = None
        self._address = ""

    @property
    def address(self) -> str:
        """The socket address on which the server's own page is to be served for this one."""
        return f"unix:{self._folder}/metrics"

    def environment(self) -> dict[str, str]:
        """Returns the environment variables of workers, so that this process sees their values."""
        return {VARIABLE: self._folder} if self.wanted else {}

    def set_server_address(self, address: str | None) -> None:
        """Sets the address of the server's own page."""
        self._address = address or self.address

    def close(self) -> None:
        """Removes the shared folder."""
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    async def render(self, accept: str) -> tuple[str, str]:
        """Returns the whole page and its media type, which the server chooses by a header `Accept`."""
        if self._client is None:
            url = self._address if self._address.startswith("unix:") else f"http://{self._address}"
            self._client = AsyncClient(url)
        response = await self._client.request("GET", "/metrics", headers={"accept": accept})
        media_type = response.headers["content-type"]
        own = bytes(response.body).decode().rstrip().removesuffix(END).rstrip()
        # prometheus_client describes the process too, under the same names.
        known = {name.removesuffix("_total") for name in re.findall(r"^# TYPE (\S+)", own, re.MULTILINE)}
        is_openmetrics = media_type.startswith("application/openmetrics-text")
        return f"{own}\n{self._script_metrics(known, is_openmetrics)}", media_type

    def _script_metrics(self, known: Set[str], is_openmetrics: bool) -> str:
        from prometheus_client import REGISTRY, CollectorRegistry, exposition, multiprocess
        from prometheus_client.openmetrics import exposition as openmetrics

        found: dict[str, Any] = {}
        if any(name.endswith(".db") for name in os.listdir(self._folder)):
            workers = CollectorRegistry()
            multiprocess.MultiProcessCollector(workers, path=self._folder)  # type: ignore[no-untyped-call]
            found = {family.name: family for family in workers.collect()}
        # The workers' families win: this process declares the same names, without values.
        for family in REGISTRY.collect():
            found.setdefault(family.name, family)

        class Families:
            def collect(self) -> Any:
                return [family for name, family in found.items() if name not in known]

        generate_latest: Any = openmetrics.generate_latest if is_openmetrics else exposition.generate_latest
        text: bytes = generate_latest(Families())
        return text.decode()
