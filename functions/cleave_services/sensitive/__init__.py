"""The sensitive service: sums of ciphertexts. It holds no key."""

from __future__ import annotations

from cleave_services.operations import ServiceHandler


def _prepare() -> None:
    """Create the ring and what masks need in advance, for workers to inherit."""
    from cleave_shared.masking import mask_evaluator  # noqa: PLC0415 - SEAL
    from cleave_shared.params import SUM60_PACK  # noqa: PLC0415

    mask_evaluator(SUM60_PACK.name)


service = ServiceHandler(
    "cleave-sensitive",
    "Adds up encrypted columns. It has no key.",
    {
        "/v1/sensitive/moments": "cleave_services.sensitive.calls:answer_sums",
        "/v1/sensitive/tables/{set}/sums": "cleave_services.sensitive.calls:answer_sums",
        "/v1/sensitive/tables/{set}/scan": "cleave_services.sensitive.scan:answer_scan",
        "/v1/sensitive": "cleave_services.sensitive.simple:answer_simple",
    },
    _prepare,
)
