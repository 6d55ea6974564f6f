"""Both services inside this process, called with a body: the same bodies, but loose, limits and answers as over HTTP.

The services are handed in: the client imports none (see cleave.local).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cleave.processes.deadline import Deadline
from cleave.transport.base import Service, Transport
from cleave.transport.responses import Response
from cleave_shared.wire import FRAMES_TYPE, Body

# of a path, a body and its media type; raises nothing that a client should see
Call = Callable[[str, Body, str], Response]


def connect_embedded(services: Mapping[Service, Call]) -> Transport:
    return Transport(_Embedded(services), here=True)


class _Embedded:
    def __init__(self, services: Mapping[Service, Call]) -> None:
        self._services = services

    def exchange(self, service: Service, path: str, body: Body, deadline: Deadline) -> Response:
        # a thread per call: a service's work cannot be cancelled, only left alone; it bounds its own time
        return deadline.call(lambda: self._services[service](path, body, FRAMES_TYPE))

    def close(self) -> None:
        """Nothing is held open between calls."""
