"""Engine calls as bytes: one JSON array each, whose arguments are decoded by the method's types.

Pure. JSON, and not MessagePack: amounts may have more than 64 bits.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from queue_scheduler.cycles.engine_call import CALLS, EngineCall
from queue_scheduler.engine.engine import Engine
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.elastic_quota_tree import ElasticQuotaTree
from shared_api.objects.namespace import Namespace
from shared_api.objects.resource_quota import ResourceQuota

_Decoders = Mapping[str, msgspec.json.Decoder[Any]]
"""The decoders of a method's arguments, by their names, in order."""

_SOURCES: Final = {
    kind.__name__: kind for kind in (ElasticQuota, ElasticQuotaTree, ResourceQuota, Namespace)
}
"""What quotas come from. The bytes name the kind: its fields alone do not tell."""

_OF_SOURCES: Final = frozenset({Engine.on_quota.__name__, Engine.on_quota_gone.__name__})


class _Written(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The array; `kind` is "" except for what quotas come from."""

    number: int
    wall: float
    name: str
    kind: str
    args: tuple[msgspec.Raw, ...]
    kwargs: dict[str, msgspec.Raw]


def _decoders_of(name: str, kind: type | None = None) -> _Decoders:
    """Return the decoders of a method; `kind`: what its first argument is."""
    parameters = inspect.signature(CALLS[name], eval_str=True).parameters.values()
    _, *own = parameters
    return {
        each.name: msgspec.json.Decoder(
            kind if kind is not None and number == 0 else each.annotation
        )
        for number, each in enumerate(own)
    }


_DECODERS: Final[Mapping[tuple[str, str], _Decoders]] = {
    **{(name, ""): _decoders_of(name) for name in CALLS.keys() - _OF_SOURCES},
    **{
        (name, kind): _decoders_of(name, _SOURCES[kind])
        for name in _OF_SOURCES
        for kind in _SOURCES
    },
}

_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(_Written)


def encode_call(call: EngineCall) -> bytes:
    """Return a call as bytes, without line breaks."""
    kind = type(call.args[0]).__name__ if call.name in _OF_SOURCES else ""
    return _ENCODER.encode((call.number, call.wall, call.name, kind, call.args, call.kwargs))


def decode_call(data: bytes) -> EngineCall:
    """Return the call of these bytes.

    Raises:
        msgspec.DecodeError: They are no call.
    """
    written = _DECODER.decode(data)
    decoders = _DECODERS.get((written.name, written.kind))
    if decoders is None or len(written.args) > len(decoders):
        raise msgspec.DecodeError(f"no call of an engine: {written.name} {written.kind}")
    args = zip(decoders.values(), written.args, strict=False)
    return EngineCall(
        written.number,
        written.wall,
        written.name,
        tuple([decoder.decode(each) for decoder, each in args]),
        {name: _decoder(decoders, name).decode(each) for name, each in written.kwargs.items()},
    )


def _decoder(decoders: _Decoders, name: str) -> msgspec.json.Decoder[Any]:
    if name not in decoders:
        raise msgspec.DecodeError(f"no such argument: {name}")
    return decoders[name]
