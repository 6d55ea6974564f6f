"""What rests in a store can be read by nobody but the owner, and both halves together do not say which row is which."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pytest
import zstandard
from numpy.typing import NDArray

from cleave.ckks.owner_key import OwnerKey
from cleave.objects.locate import Folder, Stores
from cleave.store import put as putting
from cleave.store.reader import Opened
from cleave.store.seen_versions import SeenVersions
from cleave.store.segment import _secret_order
from cleave.store.tables import Tables
from cleave.table.progress import Silent
from cleave.table.schema import read_schema
from cleave.table.stream import open_table
from tests.cli.runner import Cli
from tests.security.canaries import NAMES, PASSPHRASE, PLAIN, Canaries, traces
from tests.security.conftest import Places, WrappedKey, settled, watched
from tests.store.conftest import BUCKET, aws_environment, s3_endpoint
from tests.store.proxy import Proxy

__all__ = ["s3_endpoint"]
NAME = "quarantaenetable"  # of the stored table: a secret too
BY = "plainward,hiddenserial"
SCHEMA_WORDS = {b"BIGINT", b"DECIMAL(18,2)", b"[columns.", b"sealed", b"encrypted"}
_FRAME = bytes.fromhex("28b52ffd")


def readable(content: bytes) -> Iterator[bytes]:
    """`content`, and whatever opens in it: zstd frames, SEAL's among them, and the columns of a Parquet file."""
    yield content
    start = content.find(_FRAME)
    while start >= 0:
        try:
            with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(content[start:])) as reader:
                yield reader.read(1 << 22)
        except zstandard.ZstdError:
            pass
        start = content.find(_FRAME, start + 1)


def plain_columns(path: Path) -> tuple[dict[str, list[str]], bytes]:
    """The columns of a Parquet file as text, and what its footer says besides."""
    with duckdb.connect() as connection:
        found = connection.execute("FROM read_parquet(?)", [str(path)])
        names = [each[0] for each in found.description or ()]
        rows = found.fetchall()
        footer = connection.execute("FROM parquet_kv_metadata(?)", [str(path)]).fetchall()
    return {name: [str(row[at]) for row in rows] for at, name in enumerate(names)}, repr(footer).encode()


class CanaryStore:
    def __init__(self, cli: Cli, wrapped: WrappedKey, places: Places, table: Canaries) -> None:
        self.cli, self.places, self.wrapped, self.canaries = cli, places, wrapped, table
        self.file = table.write(places.here)
        self.halves = [places.here.parent / half for half in ("sensitive-half", "plain-half")]
        self.store = ",".join(map(str, self.halves))
        self.said = b""
        cli.environment |= {
            "CLEAVE_KEY": str(wrapped.path),
            "CLEAVE_PASSPHRASE": PASSPHRASE,
            "XDG_STATE_HOME": str(places.home / "state"),
        }

    def run(self, *words: object, code: int = 0, told: bool = True) -> str:
        """`told`: what is said holds no cell, in whatever stream."""
        result = self.cli.run(*words, "--store", self.store)
        assert result.exit_code == code, result.output
        self.said += (result.stderr + (result.stdout if told else "")).encode()
        return result.stdout

    def fill(self) -> None:
        """Everything that writes."""
        self.run("put", self.file, "--table", NAME, "--by", BY, "--scan")
        self.run("put", self.file, "--table", NAME, "--append")
        self.run("derive", NAME, "hiddencount * 2", "--as", "hiddentwice")

    def objects(self, half: int) -> dict[str, bytes]:
        folder = self.halves[half]
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def world(cli: Cli, wrapped: WrappedKey, places: Places, table: Canaries) -> CanaryStore:
    return CanaryStore(cli, wrapped, places, table)


@pytest.fixture(scope="module")
def filled(
    wrapped_key: tuple[Path, OwnerKey], table: Canaries, tmp_path_factory: pytest.TempPathFactory
) -> CanaryStore:
    """After everything that writes; for tests that only read."""
    with pytest.MonkeyPatch.context() as patch:
        made = CanaryStore(Cli(), watched(wrapped_key, patch), settled(tmp_path_factory.mktemp("filled"), patch), table)
        made.fill()
    return made


def secret(table: Canaries) -> set[bytes]:
    return table.all | {name.encode() for name in (*NAMES, *PLAIN, "hiddentwice")} | {NAME.encode()} | SCHEMA_WORDS


def test_nothing_can_be_read_in_the_sensitive_half(filled: CanaryStore) -> None:
    objects = filled.objects(0)
    assert len(objects) > 20
    for name, content in objects.items():
        assert traces(name.encode(), secret(filled.canaries)) == []
        for text in readable(content):
            assert traces(text, secret(filled.canaries)) == []
            assert not filled.wrapped.traces.found_in(text)
    frames = sum(len(list(readable(content))) - 1 for content in objects.values())
    assert frames > 10, "the search itself opens what can be opened: SEAL's own compression"


def test_the_plain_half_holds_the_plain_columns_and_nothing_else(filled: CanaryStore) -> None:
    world = filled
    objects = world.objects(1)
    assert len(objects) == 2
    for name, content in objects.items():
        columns, footer = plain_columns(world.halves[1] / name)
        by_ward = sorted(range(world.canaries.rows), key=world.canaries.cells["plainward"].__getitem__)
        assert columns == {each: [world.canaries.cells[each][row] for row in by_ward] for each in PLAIN}
        for text in (name.encode(), footer, *readable(content)):
            assert traces(text, world.canaries.sensitive | {PASSPHRASE.encode(), NAME.encode()}) == []
            assert not world.wrapped.traces.found_in(text)
    every = b"".join(text for content in objects.values() for text in readable(content))
    assert traces(every, {b"WardCanary-7f3a-1"}), "the search itself finds what is there"


def test_nothing_is_left_or_said(world: CanaryStore) -> None:
    """On this machine: no temporary file, in the memory of versions no name, in what is said no cell."""
    before = set(world.places.listing())
    world.fill()
    world.run("ls")
    world.run("show", NAME)
    world.run("verify", NAME)
    world.run("query", NAME, f"SELECT plainward, SUM(hiddenpay) FROM {NAME} GROUP BY plainward", told=False)
    world.run("query", NAME, f"SELECT MAX(hiddennote) FROM {NAME}", code=4)
    world.run("query", NAME, f"SELECT MEDIAN(hiddendose) FROM {NAME} WHERE visits > 0", told=False)
    world.run("plan", NAME, f"SELECT MAX(hiddensealed) FROM {NAME}", "--json")
    world.run("put", world.file, "--table", NAME, code=3)
    spoilt = world.canaries.write(world.places.here, {"hiddencount": "x8273645"})
    world.run("put", spoilt, "--table", "other", code=3)
    world.cli.environment["CLEAVE_PASSPHRASE"] = "OtherPassCanary-9d"
    world.run("query", NAME, f"SELECT SUM(hiddenpay) FROM {NAME}", code=5)
    world.run("show", NAME, code=5)
    world.run("shell", NAME, code=5)
    world.cli.environment["CLEAVE_PASSPHRASE"] = PASSPHRASE
    for half in (0, 1):
        for name in world.objects(half):
            path = world.halves[half] / name
            content = path.read_bytes()
            if content and not name.endswith("head"):
                path.write_bytes(content[: len(content) // 2] + b"\0" + content[len(content) // 2 + 1 :])
    world.run("verify", NAME, code=7)
    world.run("query", NAME, f"SELECT SUM(hiddenpay) FROM {NAME}", code=7)
    assert traces(world.said, world.canaries.all | {b"OtherPassCanary-9d"}) == []
    assert not world.wrapped.traces.found_in(world.said)
    left = {path: content for path, content in world.places.listing().items() if path not in before}
    assert {Path(path).name for path in left} <= {"tables.json", "tables.lock"}
    for content in left.values():
        assert traces(content, secret(world.canaries)) == []


@pytest.mark.slow
def test_a_bucket_is_told_nothing_besides(world: CanaryStore, s3_endpoint: str) -> None:
    """Of names, headers and metadata that go to S3 with an object."""
    with Proxy(s3_endpoint) as proxy:
        proxy.heads = []
        world.store = f"s3://{BUCKET}/canaries/s,s3://{BUCKET}/canaries/p"
        world.cli.environment |= aws_environment(proxy.url)
        world.fill()
        world.run("query", NAME, f"SELECT SUM(hiddenpay) FROM {NAME}", told=False)
        world.run("drop", NAME, "--yes")
        heads = b"\n".join(proxy.heads)
    assert len(proxy.heads) > 40
    assert traces(heads, secret(world.canaries)) == []
    assert b"a-secret" not in heads
    assert b"python" in heads.lower(), "the search looks at headers: botocore names itself"


def test_the_same_table_put_twice_has_nothing_in_common(world: CanaryStore) -> None:
    """No object's content says that another's is of the same values; what sealed objects share is their mark."""
    world.run("put", world.file, "--table", NAME, "--by", BY)
    first = world.objects(0)
    world.run("put", world.file, "--table", NAME, "--by", BY, "--replace")
    second = world.objects(0)
    blocks = [
        {
            content[at : at + 32]
            for name, content in objects.items()
            if not name.endswith("head")
            for at in range(200, len(content) - 32, 32)
        }
        for objects in (first, second)
    ]
    assert blocks[0].isdisjoint(blocks[1])
    assert len(blocks[0]) > 10_000


# Both halves together: where a row of the plain half lies among the ciphertexts


def random_order(positions: NDArray[np.int64]) -> bool:
    """Whether `positions`, a permutation, could well be a random one. A random one fails once in a million times."""
    n = len(positions)
    assert sorted(positions.tolist()) == list(range(n))
    at = np.arange(n)
    sigmas = 5.5
    correlation = np.corrcoef(at, positions)[0, 1]
    rising = np.mean(np.diff(positions) > 0)
    near = np.mean(np.abs(positions - at) <= n // 100)
    steps = np.mean(np.abs(np.diff(positions)) == 1)
    return bool(
        abs(correlation) < sigmas / math.sqrt(n)
        and abs(rising - 0.5) < sigmas * math.sqrt(1 / 12 / n)
        and near < 2 * (n // 100) / n + sigmas * math.sqrt(0.02 / n)
        and steps < 2 / n + sigmas * math.sqrt(2) / n
    )


@pytest.mark.parametrize(
    "order",
    [
        np.arange(4000),
        np.arange(4000)[::-1],
        np.roll(np.arange(4000), 1234),
        np.arange(4000).reshape(8, 500).T.ravel(),  # by turns
        np.concatenate([np.random.default_rng(1).permutation(100) + 100 * block for block in range(40)]),
        np.concatenate([np.arange(0, 4000, 2), np.arange(1, 4000, 2)]),
    ],
)
def test_an_order_that_tells_something_is_found(order: NDArray[np.int64]) -> None:
    assert not random_order(order)


def test_random_orders_pass() -> None:
    rng = np.random.default_rng(7)
    assert all(random_order(rng.permutation(4000)) for _ in range(200))


def stored(root: Path, key: OwnerKey, cells: str, by: list[str], scan: bool = True) -> tuple[Tables, Opened]:
    """A row for each letter of `cells`, whose values rise, so that an order by them would show."""
    path = root / "t.csv"
    path.write_text("cell,value,note\n" + "".join(f"{cell},{row},{row}\n" for row, cell in enumerate(cells)))
    columns = {"cell": ("plain", "VARCHAR"), "value": ("encrypted", "BIGINT"), "note": ("plain", "BIGINT")}
    schema = read_schema(
        {"columns": {name: {"kind": kind, "type": type_} for name, (kind, type_) in columns.items()}}, "t"
    )
    sensitive, plain = Folder(root / "s"), Folder(root / "p")
    tables = Tables(Stores(sensitive, plain), key, SeenVersions(root / "tables.json"))
    with open_table([path], schema) as table:
        return tables, putting.put(tables, table, "t", by, Silent(), scan=scan)


@pytest.mark.parametrize("by", [[], ["cell"]])
def test_ciphertexts_lie_in_an_order_that_the_plain_half_does_not_tell(
    tmp_path: Path, owner: OwnerKey, by: list[str]
) -> None:
    tables, opened = stored(tmp_path, owner, "ab" * 4000, by)
    (segment,) = opened.manifest.segments
    assert segment.scan is not None
    order = np.frombuffer(tables.unseal(opened.vault, "rows", segment.scan.order), np.uint32).astype(np.int64)
    assert sorted(order.tolist()) == list(range(8000))
    plain, _ = plain_columns(tmp_path / "p" / segment.plain.name) if segment.plain else ({}, b"")
    notes = np.array(plain["note"], np.int64)
    in_order = np.arange(8000).reshape(-1, 2).T.ravel() if by else np.arange(8000)
    assert notes.tolist() == in_order.tolist(), "the plain half is sorted by plain by columns, then as the file was"
    for cell in (0, 1) if by else (None,):
        of_cell = order if cell is None else order[notes[order] % 2 == cell]
        assert random_order(np.argsort(np.argsort(of_cell)))


def test_cells_lie_in_random_order() -> None:
    """Neither by key, nor by size, nor by where they appear: every cell is first as often as any other."""
    counts = np.array([1, 2, 3, 4, 5, 6, 7, 8])
    cells = np.repeat(np.arange(8), counts)
    rounds = 1600
    orders = np.array([list(dict.fromkeys(cells[_secret_order(counts)].tolist())) for _ in range(rounds)])
    expected = rounds / len(counts)
    for place in range(len(counts)):
        seen = np.bincount(orders[:, place], minlength=len(counts))
        assert ((seen - expected) ** 2 / expected).sum() < 45, seen  # chi-square of 7 degrees: 1 in 10 million


def test_a_cells_number_does_not_tell_its_key(tmp_path: Path, owner: OwnerKey) -> None:
    """Nor its size, nor where it appears first: a random order is one of these six once in 600,000 times."""
    cells = "cccaahhhhhhhbdddddffffffffggggggeeeejjjjjjjjjjiiiiiiiii"
    tables, opened = stored(tmp_path, owner, cells, ["cell"], scan=False)
    order = [str(key) for (key,) in tables.cells(opened).keys]
    told = [sorted(set(cells)), sorted(set(cells), key=cells.index), sorted(set(cells), key=cells.count)]
    assert sorted(order) == told[0]
    assert order not in [*told, *(each[::-1] for each in told)]
