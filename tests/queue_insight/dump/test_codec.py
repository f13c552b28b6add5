"""A file that is no dump is refused with a sentence, whatever is in it."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib

import msgspec
import pytest

from queue_insight.dump import codec
from queue_insight.dump.codec import DumpError, decode_dump, encode_dump
from queue_insight.dump.take import take_dump
from queue_scheduler.engine.settings import EngineSettings
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from tests.properties.engine_kit import build_queue, build_quota, build_unit
from tests.properties.real_quotas import new_engine
from tests.properties.test_dumps import AT


def small_dump() -> bytes:
    engine = new_engine(QuotaSettings(mode=QuotaMode.MAX))
    engine.on_quota(build_quota("a", cpu=1))
    engine.on_queue(build_queue("a"))
    engine.on_queue_unit(build_unit("u", "a"))
    return encode_dump(take_dump(engine, AT, EngineSettings(), "1.2.3", leader=True))


DUMP = small_dump()


@pytest.mark.parametrize("compress", [False, True])
def test_a_dump_is_read_as_it_was_written(compress: bool) -> None:
    dump = decode_dump(DUMP, "1.2.3")
    assert [unit.metadata.key for unit in dump.units] == ["ns/u"]
    assert decode_dump(encode_dump(dump, compress=compress), "1.2.3") == dump


def edited(**fields: object) -> bytes:
    return msgspec.json.encode({**msgspec.json.decode(DUMP), **fields})


@pytest.mark.parametrize(
    ("data", "want"),
    [
        pytest.param(b"", "it is no dump: Input data was truncated", id="nothing"),
        pytest.param(b"\x80\x05cos\nsystem\n", "it is no dump: JSON is malformed", id="a pickle"),
        pytest.param(b"[]", "it is no dump: Expected `object`, got `array`", id="a list"),
        pytest.param(b'{"kind": "Pod"}', "its kind is 'Pod', want KoordQueueDump", id="a pod"),
        pytest.param(DUMP[:-20], "it is no dump: Input data was truncated", id="cut short"),
        pytest.param(
            edited(format=9, version="9.0"),
            "koord-queue 9.0 has made it, which is newer than 1.2.3: update this one",
            id="of a newer program",
        ),
        pytest.param(
            edited(units=[{"spec": {"priority": "high"}}]),
            "the dump cannot be read: Expected `int`, got `str` - at `$.units[0].spec.priority`"
            " (made by koord-queue 1.2.3)",
            id="a field of another type",
        ),
        pytest.param(edited(units=None), "at `$.units`", id="a field that is null"),
        pytest.param(
            b'{"kind": "KoordQueueDump", "x": ' + b"[" * 100_000, "nested too deep", id="deep"
        ),
        pytest.param(b'{"kind": "\xff\xfe"}', "it is no dump: ", id="no UTF-8"),
        pytest.param(gzip.compress(DUMP)[:-9], "its end is missing", id="cut short, compressed"),
        pytest.param(b"\x1f\x8b" + DUMP, "it cannot be decompressed", id="no gzip"),
    ],
)
def test_what_is_no_dump(data: bytes, want: str) -> None:
    with pytest.raises(DumpError) as raised:
        decode_dump(data, "1.2.3")
    assert want in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_file_that_unpacks_without_end_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "MAX_BYTES", 1000)
    packer = zlib.compressobj(wbits=31)
    bomb = packer.compress(bytes(10_000_000)) + packer.flush()
    tracemalloc.start()
    try:
        with pytest.raises(DumpError, match="too large"):
            decode_dump(bomb, "1.2.3")
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
