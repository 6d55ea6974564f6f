"""The sensitive service behind FastAPI, and its Lambda handler."""

from __future__ import annotations

from cleave_services import http
from cleave_services.sensitive import service

app = http.create_app(service)
handler = http.lambda_handler(app, service.prepare)
