"""Messages that nothing has checked, as a wrong client sends them."""

from __future__ import annotations

import dataclasses
from typing import TypeVar

from cleave_shared.messages import Message

Model = TypeVar("Model", bound=Message)


def unchecked(model: type[Model], **fields: object) -> Model:
    """Build a message with whatever `fields`, and defaults of its class for the others."""
    message = object.__new__(model)
    for each in dataclasses.fields(model):
        if each.name in fields:
            value = fields[each.name]
        else:
            value = each.default_factory() if callable(each.default_factory) else each.default
        vars(message)[each.name] = value
    return message
