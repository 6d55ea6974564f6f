"""Hosts and ports of this machine: loopback addresses, and listening."""

from __future__ import annotations

import ipaddress
import socket

from cleave_shared.errors import InputError


def is_loopback(host: str) -> bool:
    """True if only this machine can reach the address."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def listen(host: str, port: int) -> socket.socket:
    """Listen on a TCP port; 0 means any free one. Raises InputError if that fails."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server(address[:2], family=family, backlog=256)
    except OSError as error:
        reason = (error.strerror or "").partition(" (while attempting")[0]  # socket.create_server appends the address
        raise unavailable(host, port, reason) from None


def unavailable(host: str, port: int, reason: str) -> InputError:
    """The error for a port on which listening fails."""
    why = f" ({reason})" if reason else ""
    return InputError(f"{host} port {port} cannot be listened on{why}", hint="another --port, or 0 for any free one")


def in_url(host: str) -> str:
    """`host` as in a URL: IPv6 addresses have brackets."""
    return f"[{host}]" if ":" in host else host
