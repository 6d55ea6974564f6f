"""One suite over every kind of store."""

from __future__ import annotations

import errno
import os
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from boto3.session import Session

from cleave.objects.locate import Bounded, Folder, open_store, open_stores, scheme_of
from cleave.objects.s3 import Bucket
from cleave.objects.storage import ConflictError, NotStoredError, Storage, StoreError
from cleave.sums.job import job_of
from cleave_shared.errors import InputError
from tests.functional.processes import HANGS
from tests.store.conftest import BUCKET, aws_session, aws_session_in

CONTENT = bytes(range(256)) * 20


@pytest.fixture(params=["folder", "s3"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_what_is_written_is_read(storage: Storage, open_again: Callable[[], Storage]) -> None:
    storage.write("t/o/one", CONTENT)
    assert open_again().read("t/o/one") == CONTENT
    assert storage.read("t/o/one", 10, 30) == CONTENT[10:30]
    assert storage.read("t/o/one", 300) == CONTENT[300:]


def test_links_lead_below_the_base_and_read_and_write_once(storage: Storage) -> None:
    storage.write("t/o/one", CONTENT)
    read, write = storage.link("t/o/one", 60), storage.put_link("t/o/two", 60)
    assert read.startswith(storage.base)
    assert write.startswith(storage.base)
    assert storage.base.endswith("/")
    with urllib.request.urlopen(read) as answer:  # noqa: S310 - a folder gives a file's
        assert answer.read() == CONTENT
    if write.startswith("http"):
        for status in (200, 412):
            assert httpx.put(write, content=b"new", headers={"if-none-match": "*"}).status_code == status
        assert storage.read("t/o/two") == b"new"


@pytest.mark.parametrize(
    ("bucket", "region", "base"),
    [
        ("a-bucket", "us-east-1", "https://a-bucket.s3.us-east-1.amazonaws.com/"),
        ("a-bucket", "eu-central-1", "https://a-bucket.s3.eu-central-1.amazonaws.com/"),
        ("a.bucket", "eu-central-1", "https://s3.eu-central-1.amazonaws.com/a.bucket/"),
        ("a-bucket", "cn-north-1", "https://a-bucket.s3.cn-north-1.amazonaws.com.cn/"),
    ],
)
@pytest.mark.parametrize("prefix", ["", "some/prefix", "odd prefix+~"])
def test_links_name_the_buckets_own_host_in_its_region(bucket: str, region: str, base: str, prefix: str) -> None:
    """A service that was given that host takes no other, and S3 redirects from others."""
    opened = Bucket(aws_session_in(region), bucket, prefix)
    assert opened.base == base
    write = opened.put_link("results/x", 60)
    assert write.startswith(base)
    assert "if-none-match" in write
    opened.close()


def test_what_is_not_there_is_said(storage: Storage) -> None:
    with pytest.raises(NotStoredError):
        storage.read("t/o/none")
    assert storage.read_versioned("t/head") is None


def test_an_object_is_never_written_over(storage: Storage) -> None:
    storage.write("t/o/one", CONTENT)
    with pytest.raises(ConflictError):
        storage.write("t/o/one", b"other")
    assert storage.read("t/o/one") == CONTENT


def test_a_head_changes_only_from_the_version_that_was_read(
    storage: Storage, open_again: Callable[[], Storage]
) -> None:
    first = storage.replace("t/head", b"1", None)
    assert storage.read_versioned("t/head") == (b"1", first)
    other = open_again()
    second = other.replace("t/head", b"2", first)
    for expected in (first, None):
        with pytest.raises(ConflictError):
            storage.replace("t/head", b"3", expected)
    assert storage.read_versioned("t/head") == (b"2", second)


def test_a_head_that_went_away_is_a_conflict(storage: Storage) -> None:
    version = storage.replace("t/head", b"1", None)
    storage.delete(["t/head"])
    with pytest.raises(StoreError):
        storage.replace("t/head", b"2", version)


def test_of_many_writers_one_wins(open_again: Callable[[], Storage]) -> None:
    stores = [open_again() for _ in range(8)]
    version = stores[0].replace("t/head", b"start", None)
    won: list[int] = []

    def write(number: int) -> None:
        try:
            stores[number].replace("t/head", b"%d" % number, version)
        except ConflictError:
            return
        won.append(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(len(stores))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANGS)
    assert len(won) == 1
    assert stores[0].read("t/head") == b"%d" % won[0]


def test_names_are_told_under_a_prefix(storage: Storage) -> None:
    assert list(storage.names("")) == []
    assert list(storage.names("t")) == []
    for name in ("t/head", "t/o/a", "t/o/b", "tt/o/c"):
        storage.write(name, b"x")
    assert sorted(storage.names("t")) == ["t/head", "t/o/a", "t/o/b"]
    assert sorted(storage.names("")) == ["t/head", "t/o/a", "t/o/b", "tt/o/c"]


@pytest.mark.parametrize("kind", ["folder", pytest.param("s3", marks=pytest.mark.slow)])
def test_more_names_than_a_page_has(storage: Storage) -> None:
    names = [f"t/o/{number}" for number in range(1005)]
    if isinstance(storage, Folder):
        names = names[:50]
    for name in names:
        storage.write(name, b"")
    assert sorted(storage.names("t")) == sorted(names)
    storage.delete(names)
    assert list(storage.names("t")) == []


def test_deleting_what_is_not_there_is_no_error(storage: Storage) -> None:
    storage.write("t/o/a", b"x")
    storage.delete(["t/o/a", "t/o/none"])
    storage.delete([])
    assert list(storage.names("t")) == []


@pytest.mark.parametrize("name", ["../x", "t/../x", "/t", "t//x", "", "t/", ".t", "T", "t/o x", "t/ä", "x" * 600])
def test_a_name_cannot_lead_elsewhere(storage: Storage, name: str) -> None:
    for use in (storage.read, lambda it: storage.write(it, b""), lambda it: storage.link(it, 60)):
        with pytest.raises(StoreError, match="lists an object"):
            use(name)


def test_a_link_gives_one_object(storage: Storage) -> None:
    storage.write("t/o/a", CONTENT)
    with urllib.request.urlopen(storage.link("t/o/a", 60), timeout=HANGS) as answer:  # noqa: S310 - our own
        assert answer.read() == CONTENT


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(StoreError, match="cannot be"):
        Folder(tmp_path / "file").write("t/o/a", b"x")
    with pytest.raises(StoreError, match="cannot be"):
        Folder(tmp_path / "file").replace("t/head", b"x", None)


def test_objects_of_a_folder_are_private(tmp_path: Path) -> None:
    Folder(tmp_path / "store").write("t/o/a", b"x")
    assert (tmp_path / "store/t/o/a").stat().st_mode & 0o077 == 0


def test_what_a_killed_writer_left_can_be_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Folder(tmp_path / "store")
    store.write("t/o/a", b"x")
    store.replace("t/head", b"1", None)
    for name in ("link", "replace", "unlink"):  # no draft is moved or removed any more
        monkeypatch.setattr("os." + name, lambda *_, **__: None)
    store.write("t/o/b", b"half")
    store.replace("t/head", b"2", store.read_versioned("t/head")[1])  # type: ignore[index]
    monkeypatch.undo()
    drafts = set(store.names("t")) - {"t/o/a", "t/head"}
    assert len(drafts) == 2
    assert store.read("t/head") == b"1"
    store.delete(drafts)
    assert sorted(path.name for path in (tmp_path / "store").rglob("*") if path.is_file()) == [".lock", "a", "head"]


def test_a_bucket_that_is_not_there(s3_endpoint: str) -> None:
    store = Bucket(aws_session(), "no-such-bucket", "", s3_endpoint)
    with pytest.raises(StoreError) as caught:
        store.write("t/o/a", b"x")
    assert "NoSuchBucket" in caught.value.message
    assert caught.value.hint is not None


def test_a_store_that_cannot_be_reached() -> None:
    store = Bucket(aws_session(), BUCKET, "", "http://127.0.0.1:9")
    with pytest.raises(StoreError, match="cannot be reached"):
        store.read("t/o/a")


@pytest.mark.parametrize("text", ["", "a,b,c", "a,", "s3://", "gs://bucket/x", "s3:///x"])
def test_what_names_no_store(text: str) -> None:
    with pytest.raises(InputError):
        open_stores(text, aws_session)


@pytest.mark.parametrize(
    ("place", "is_s3"), [("s3://b/p", True), (" s3://b", True), ("s3", False), ("./s3:", False), ("/a/b", False)]
)
def test_a_scheme_says_what_reads_cost_and_what_jobs_reach(place: str, is_s3: bool) -> None:
    found = scheme_of(place)
    assert (found.is_remote, found.runs_jobs) == (is_s3, is_s3)


def test_a_job_needs_a_bucket(tmp_path: Path) -> None:
    unused: Any = None
    with pytest.raises(InputError, match="a job reads and writes in S3"):
        job_of(Bounded(Folder(tmp_path)), "tables/x", unused, unused, "SELECT 1")


def test_one_place_or_two(tmp_path: Path) -> None:
    both = open_stores(f"{tmp_path / 'a'},s3://{BUCKET}/x/y", aws_session)
    assert isinstance(both.sensitive, Bounded)
    assert isinstance(both.sensitive.inside, Folder)
    assert isinstance(both.plain, Bounded)
    assert isinstance(both.plain.inside, Bucket)
    both.close()
    one = open_stores(str(tmp_path / "a"), aws_session)
    assert one.sensitive is one.plain


def test_a_file_where_a_folder_should_be_is_told(tmp_path: Path) -> None:
    """By a listing, too: such a store seemed to be empty."""
    (tmp_path / "file").write_bytes(b"x")
    for store in (Folder(tmp_path / "file"), Folder(tmp_path / "file" / "below")):
        for ask in (
            lambda store=store: store.read("t/a"),
            lambda store=store: store.write("t/a", b"y"),
            lambda store=store: store.replace("t/head", b"y", None),
            lambda store=store: list(store.names("t")),
        ):
            with pytest.raises(StoreError, match="Not a directory") as failed:
                ask()
            assert failed.value.hint == "there is a file where a folder should be: name another place"
    assert list(Folder(tmp_path / "nowhere").names("")) == []


def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the store's own name, and nothing is left behind."""
    store = Folder(tmp_path / "s")
    store.write("t/a", b"x")

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    for ask in (lambda: store.write("t/b", b"y"), lambda: store.replace("t/head", b"y", None)):
        with pytest.raises(StoreError) as failed:
            ask()
        assert failed.value.message == f"{tmp_path / 's'}: an object cannot be written (No space left on device)"
        assert failed.value.hint is not None
        assert failed.value.hint.startswith("make room there")
    assert list(store.names("")) == ["t/a"]


def test_links_in_a_loop_name_no_store(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    for place in ("loop", "loop/below"):
        with pytest.raises(InputError, match="its links lead nowhere"):
            Folder(tmp_path / place)


def test_two_buckets_are_opened_in_one_session_and_two_folders_in_none() -> None:
    made = []

    def session() -> Session:
        made.append(aws_session())
        return made[-1]

    open_stores("a,b", session).close()
    assert not made
    for count in (1, 2):  # nor is it kept for whoever opens stores next
        open_stores(f"s3://{BUCKET}/x,s3://{BUCKET}/y", session).close()
        assert len(made) == count


def test_a_folder_may_be_below_the_home_folder() -> None:
    assert isinstance(open_store("~/x", aws_session), Folder)
