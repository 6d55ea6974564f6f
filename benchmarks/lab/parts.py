"""The parts of a question over a file, and of a scan, that handle rows and groups, to be timed one by one.

They are the product's code. What it encrypts and adds up is left to the primitives.
A part's time is taken to be linear in the counts of its `TERMS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import duckdb

from cleave.ask.files import FileSource
from cleave.ask.finishing import finished
from cleave.ask.options import Access
from cleave.ask.owners import open_tables
from cleave.ask.question import Clock, GroupSums, RunningQuestion
from cleave.ask.session import Session
from cleave.ask.stored import StoredSource
from cleave.ckks.cipher import Cipher
from cleave.ckks.columns import Columns
from cleave.ckks.encode import encode
from cleave.ckks.encryptors import MIN_CHUNKS_TO_FORK, Encryptors
from cleave.ckks.figures import Figures
from cleave.ckks.job import Job
from cleave.ckks.packing import plan_packing
from cleave.ckks.secret_key import fresh_key
from cleave.deadline import Deadline
from cleave.local.embedded import embedded_services
from cleave.objects.locate import Folder, Stores
from cleave.sql.split import Halves
from cleave.store.put import put
from cleave.store.seen_versions import SeenVersions
from cleave.sums.scan import Scan, select
from cleave.table.lazy import of_files
from cleave.table.progress import Silent
from cleave.table.schema import load_schema
from cleave.table.stream import open_table
from cleave_shared import limits
from cleave_shared.params import DEFAULT_PROFILE
from cleave_shared.requests import PlainRequest

# What each part takes more time for; "once" is what it takes anyway.
TERMS: Mapping[str, tuple[str, ...]] = {
    "plan": ("once",),
    "read the file": ("once", "rows", "values"),
    "group rows": ("once", "rows", "values"),
    "encode": ("once", "encoded"),
    "plain half": ("once", "rows", "groups"),
    "workers": ("once", "chunks"),
    "check answers": ("once", "chunks"),
    "finish": ("once", "figures"),
    "plan a scan": ("once",),
    "select for a scan": ("once", "rows"),
    "place for a scan": ("once", "rows"),
    "check a scan": ("once", "chunks", "results"),
}
SECONDS = 600.0
Parts = dict[str, Callable[[], object]]


class Made:
    """A file of `rows` rows: `g` of `groups` values, and `columns` encrypted ones.

    A `real` column has no declared bounds, so that it takes a lane of its own. `form` is an aggregate of each column.
    """

    def __init__(self, folder: Path, rows: int, columns: int, groups: int, *, real: bool = True, form: str = "SUM"):
        self.rows, self.columns, self.groups, self.real = rows, columns, groups, real
        aggregates = ", ".join(f"{form}(x{each})" for each in range(columns))
        self.sql = f"SELECT g, {aggregates} FROM t GROUP BY g"
        self.folder = folder / f"{rows}x{columns}by{groups}{'real' * real}"
        self.path, self._key = self.folder / "t.csv", folder / "key.json"
        if not self.folder.exists():
            self._write()
        self.schema = load_schema(self.path.with_suffix(".schema.toml"))

    def _write(self) -> None:
        self.folder.mkdir()
        factor = " * 1.37" * self.real
        values = [f"(i * {7919 + 2 * each}) % 1000000{factor} AS x{each}" for each in range(self.columns)]
        selected = ", ".join([f"i % {self.groups} AS g", *values])
        with duckdb.connect() as connection:
            connection.execute(f"COPY (SELECT {selected} FROM range({self.rows}) r(i)) TO '{self.path}' (HEADER)")
        kind = 'type = "DOUBLE"' if self.real else 'type = "INTEGER"\nlower = 0\nupper = 1000000'
        columns = ['[columns.g]\nkind = "plain"\ntype = "BIGINT"\n']
        columns += [f'[columns.x{each}]\nkind = "encrypted"\n{kind}\n' for each in range(self.columns)]
        self.path.with_suffix(".schema.toml").write_text("".join(f"{each}nullable = false\n" for each in columns))

    def session(self) -> Session:
        """Over the file, which nobody has read yet."""
        return Session(FileSource(of_files([self.path], self.schema, "t"), Access(self._key), embedded_services))

    def stored(self) -> Session:
        """Over the file as a stored table with rows for scans."""
        stores = Stores(Folder(self.folder / "s"), Folder(self.folder / "p"))
        memory, access = SeenVersions(self.folder / "tables.json"), Access(self._key)
        if not (self.folder / "s").exists():
            with open_table([self.path], self.schema) as table:
                put(open_tables(stores, access, memory), table, "t", [], Silent(), scan=True)
        return Session(StoredSource("t", stores, access, memory=memory, embedded=embedded_services))


def cut_of(made: Made) -> Any:
    with made.session() as session:
        return session.plan(made.sql).cut


def of_file(made: Made, stack: ExitStack) -> Parts:
    """The parts of the question over the file."""
    cut: Any = cut_of(made)
    table = stack.enter_context(open_table([made.path], made.schema, name="t"))
    halves, columns = Halves(table, cut), Columns(cut.domains, cut.encrypted)
    values, counts = halves.values(), halves.counts
    packing, key = plan_packing(columns.types, counts, DEFAULT_PROFILE), fresh_key(DEFAULT_PROFILE)
    job = Job(packing, encode(packing, columns.encode(halves.names, values)), Cipher(key))
    transport = embedded_services().begin(Deadline(SECONDS))
    parts = packing.ranges(limits.REQUESTS_UNDER_WAY)
    requests = [job.request(part, key.key_id, list(job.encrypt(part))) for part in parts]
    answers = list(map(transport.sensitive, requests))

    def check() -> Job:
        mine = job.unanswered()
        for part, request, answer in zip(parts, requests, answers, strict=True):
            mine.accept(part, request, answer)
        return mine

    def read() -> None:
        open_table([made.path], made.schema).__enter__().__exit__(None, None, None)

    def group() -> None:
        Halves(table, cut).values()

    def plain() -> list[Any]:
        halves.__dict__.pop("plain_parts", None)
        asked = {"columns": list(cut.plain_columns), "where": cut.where, "keys": list(cut.keys), "aggregates": []}
        mine = [PlainRequest(objects=[each.parquet], rows=[each.rows], **asked) for each in halves.plain_parts]
        return [transport.plain(each) for each in mine]

    responses, answered = plain(), check()
    keys, question = halves.keys, RunningQuestion(False, 0, Silent(), Deadline(SECONDS), Clock())

    def finish() -> Any:
        figures = partial(Figures, columns, answered)
        return finished(GroupSums(cut, keys, counts.tolist(), responses, figures=figures), question)

    def workers() -> None:
        with Encryptors(job, parts) as encryptors:
            encryptors.each(lambda *_: None, limits.REQUESTS_UNDER_WAY, Event(), Deadline(SECONDS))

    return {
        "plan": lambda: cut_of(made),
        "read the file": read,
        "group rows": group,
        "encode": lambda: encode(packing, columns.encode(halves.names, values)),
        "plain half": plain,
        "check answers": check,
        "finish": finish,
        **({"workers": workers} if packing.chunks >= MIN_CHUNKS_TO_FORK else {}),
    }


def of_scan(made: Made, stack: ExitStack) -> Parts:
    """The parts of a scan of all rows, but for what the service adds up."""
    session = stack.enter_context(made.stored())
    (way,) = session.plan(made.sql, cloud_only=True).ways
    source: Any = session.source
    stored, needs = source.site().stored, way.needs  # type: ignore[attr-defined]
    stored.remote = source._services.open(source._tables.folder("t"), stored.manifest, Deadline(SECONDS))
    selected = select(stored, needs)
    calls = list(Scan(stored, needs, selected).calls())
    answers = [[each for lane in stored.services.scan(call.request()).totals for each in lane] for call in calls]

    def check() -> None:
        sums = Scan(stored, needs, selected).sums
        for call, answer in zip(calls, answers, strict=True):
            sums.accept(call.about.shape, answer, [(call.segment, call.about)])

    return {
        "check a scan": check,
        "plan a scan": lambda: session.plan(made.sql, cloud_only=True),
        "select for a scan": lambda: select(stored, needs),
        "place for a scan": lambda: [each.request() for each in Scan(stored, needs, selected).calls()],
    }
