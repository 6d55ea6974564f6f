"""Objects by links: what a service reads and writes where, and everything a link or a store may try."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cleave_services import link_http, link_places, links
from cleave_services.links import Links
from cleave_shared import limits
from cleave_shared.errors import WireError
from cleave_shared.requests import Linked
from tests.functional.processes import met
from tests.functional.test_transport_http import self_signed

SET = "5" * 32
NAME = f"tables/{SET}/{'a' * 32}"
RESULT = f"results/{SET}/{'b' * 32}"
SIGNED = "?X-Amz-Signature=canary4711"
CONTENT = b"ciphertexts" * 1000


def linked(url: str, content: bytes = CONTENT, **other: object) -> Linked:
    known = {"link": url, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    return Linked(**(known | other))


def answer(content: bytes, status: str = "200 OK", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", *(headers or (f"content-length: {len(content)}",)), "", ""]
    return "\r\n".join(lines).encode() + content


Line = Callable[[socket.socket, bytes], None]


class Store:
    """A server on this machine that answers as the test says; `asked` are the heads of its requests."""

    def __init__(self, handle: Line, tls: ssl.SSLContext | None = None) -> None:
        self.asked: list[bytes] = []
        self._handle = handle
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.base = f"http{'s' if tls else ''}://127.0.0.1:{self._listener.getsockname()[1]}/a-bucket/"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                line, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._one, args=(line,), daemon=True).start()

    def _one(self, accepted: socket.socket) -> None:
        tls = self._tls
        with contextlib.suppress(OSError), tls.wrap_socket(accepted, server_side=True) if tls else accepted as line:
            waiting = b""
            while got := line.recv(65536):
                waiting += got
                if b"\r\n\r\n" in waiting:
                    head, _, waiting = waiting.partition(b"\r\n\r\n")
                    self.asked.append(head)
                    self._handle(line, head)
                    waiting = b""

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # to close it would not wake the thread that waits for a connection
        self._thread.join()
        self._listener.close()


@pytest.fixture
def store() -> Iterator[Callable[[Line | bytes], Store]]:
    opened: list[Store] = []

    def start(answering: Line | bytes) -> Store:
        handle = answering if callable(answering) else lambda line, _: line.sendall(answering)
        opened.append(Store(handle))
        return opened[-1]

    yield start
    for each in opened:
        each.close()


def refused(of: Links, *objects: Linked) -> WireError:
    with pytest.raises(WireError) as caught:
        of.below(SET).read(list(objects))
    told = f"{caught.value.message} {caught.value.hint}"
    for secret in ("canary", NAME, SET, "a-bucket", "127.0.0.1"):
        assert secret not in told, told
    return caught.value


def test_objects_come_in_order_over_few_connections(store: Callable[[Line | bytes], Store]) -> None:
    contents = [f"object {number}".encode() * 100 for number in range(40)]
    served = store(lambda line, head: line.sendall(answer(contents[int(head.split()[1].split(b"?")[0][-32:], 16)])))
    objects = [
        linked(f"{served.base}some/%C3%BC%20~%2B/tables/{SET}/{number:032x}{SIGNED}", each)  # as botocore writes it
        for number, each in enumerate(contents)
    ]
    assert Links([served.base]).below(SET).read(objects) == contents
    assert len(served.asked) == 40
    assert all(b"accept-encoding: identity" in head.lower() for head in served.asked)


@pytest.mark.parametrize(
    "url",
    [
        f"https://another.s3.eu-central-1.amazonaws.com/{NAME}",
        f"http://a-bucket.s3.eu-central-1.amazonaws.com/{NAME}",
        f"https://a-bucket.s3.eu-central-1.amazonaws.com.evil.example/{NAME}",
        f"https://a-bucket.s3.eu-central-1.amazonaws.com@evil.example/{NAME}",
        f"https://user@a-bucket.s3.eu-central-1.amazonaws.com/{NAME}",
        f"https://a-bucket.s3.eu-central-1.amazonaws.com:8443/{NAME}",
        f"https://a-bucket.s3.eu-central-1.amazonaws.com\\@evil.example/{NAME}",
        f"HTTPS://a-bucket.s3.eu-central-1.amazonaws.com/{NAME}",
        f"https://a-bucket.s3.eu-central-1.amazonaws.com//{NAME}",
        f"https://a-bucket.s3.eu-central-1.amazonaws.com/../{NAME}",
        f"https://a-bucket.s3.eu-central-1.amazonaws.com/%2e%2e/{NAME}",
        f"https://a-bucket.s3.eu-central-1.amazonaws.com/..%2f../{NAME}",
        f"https://a-bucket.s3.eu-central-1.amazonaws.com/x%2f..%2Fother%2f{NAME}",
        f"https://a-bucket.s3.eu-central-1.amazonaws.com/x/..%2Fy/{NAME}",
        f"https://a-bucket.s3.eu-central-1.amazonaws.com/%2E./{NAME}",
        f"https://a-bucket.s3.eu-central-1.amazonaws.com/x%ff/{NAME}",
        f"https://a-bucket.s3.eu-central-1.amazonaws.com/{NAME.replace('/', '%2f')}",
        f"https://a-bucket.s3.eu-central-1.amazonaws.com/{NAME}#x",
        f"https://a-bucket.s3.eu-central-1.amazonaws.com/{NAME} HTTP/1.1",
        f"https://a-bucket.s3.eu-central-1.amazonaws.com/{NAME}?\r\nhost: x",
        f"https://a-bucket.s3.eu-central-1.amazonaws.com/{NAME.replace('5', '6')}",
        f"https://a-bucket.s3.eu-central-1.amazonaws.com/{RESULT}",
        f"https://a-bucket.s3.eu-central-1.amazonaws.com/other?x={NAME}",
        f"https://a-bucket.s3.eu-central-1.amazonaws.com/tables/{SET}/head.json",
        f"file:///etc/{NAME}",
        "http://169.254.169.254/latest/meta-data/",
        "http://127.0.0.1:9001/2018-06-01/runtime/invocation/next",
    ],
)
def test_a_link_leads_into_the_services_bucket_and_the_set_or_is_refused(url: str) -> None:
    of = Links(["https://a-bucket.s3.eu-central-1.amazonaws.com/"])
    error = refused(of, linked(url))
    assert "leads to no" in error.message
    assert error.code == "wire"


def test_nothing_is_read_before_every_link_is_known_to_be_fine(store: Callable[[Line | bytes], Store]) -> None:
    served = store(answer(CONTENT))
    refused(Links([served.base]), linked(served.base + NAME), linked(f"http://127.0.0.1:1/{NAME}"))
    assert served.asked == []


@pytest.mark.parametrize("table_set", ["", "..", ".*", "5" * 31, "A" * 32, f"{SET}/x", "(" * 32])
def test_a_set_is_32_digits(table_set: str) -> None:
    with pytest.raises(WireError, match="32 hexadecimal"):
        Links(["https://a-bucket/"]).below(table_set).read([linked(f"https://a-bucket/{NAME}")])


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (answer(b"", "302 Found", "location: http://127.0.0.1:1/x", "content-length: 0"), "302"),
        (answer(b"", "307 Temporary Redirect", "location: /x", "content-length: 0"), "307"),
        (answer(b"<Error>canary4711</Error>", "403 Forbidden"), "403"),
        (answer(b"", "404 Not Found"), "404"),
        (answer(CONTENT, "206 Partial Content"), "206"),
        (answer(CONTENT[:-1]), "another size"),
        (answer(CONTENT + b"x"), "another size"),
        (answer(CONTENT + b"x", "200 OK", "connection: close"), "another size"),
        (answer(b"canary4711" * 1100), "digest"),
        (answer(CONTENT, "200 OK", "content-encoding: gzip", f"content-length: {len(CONTENT)}"), "encoding"),
        (b"HTTP/1.1 nonsense canary4711\r\n\r\n", "BadStatusLine"),
        (b"x" * 70_000 + b"\r\n\r\n", "(LineTooLong|BadStatusLine)"),
    ],
)
def test_what_a_store_may_answer(store: Callable[[Line | bytes], Store], said: bytes, status: str) -> None:
    served = store(said)
    assert re.search(status, refused(Links([served.base]), linked(served.base + NAME)).message)


def test_a_body_cut_short_is_no_object(store: Callable[[Line | bytes], Store]) -> None:
    def cut(line: socket.socket, _: bytes) -> None:
        line.sendall(answer(CONTENT)[:-100])
        line.shutdown(socket.SHUT_RDWR)

    served = store(cut)
    refused(Links([served.base]), linked(served.base + NAME))


def test_a_store_that_is_busy_is_asked_again(
    store: Callable[[Line | bytes], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_http, "_PAUSE", 0.01)
    answers = iter([answer(b"", "503 Slow Down"), answer(b"", "500 Internal Error"), answer(CONTENT)])
    served = store(lambda line, _: line.sendall(next(answers)))
    assert Links([served.base]).below(SET).read([linked(served.base + NAME)]) == [CONTENT]
    busy = store(answer(b"", "503 Slow Down"))
    assert "503" in refused(Links([busy.base]), linked(busy.base + NAME)).message
    assert len(busy.asked) == 3


@pytest.mark.parametrize("drip", [answer(CONTENT)[:20], answer(CONTENT)[:-500], b""], ids=["head", "body", "nothing"])
def test_a_slow_store_is_left_at_the_deadline(
    store: Callable[[Line | bytes], Store], monkeypatch: pytest.MonkeyPatch, drip: bytes
) -> None:
    """Also one that sends a byte now and then, in the head of its answer as in the body."""
    monkeypatch.setattr(limits, "LINK_SECONDS", 0.2)

    def slow(line: socket.socket, _: bytes) -> None:
        line.sendall(drip)
        for byte in answer(CONTENT)[len(drip) :]:  # ten minutes of it
            if over.wait(0.05):
                return
            line.sendall(bytes([byte]))

    over = threading.Event()
    served = store(slow)
    try:
        assert "within" in refused(Links([served.base]), linked(served.base + NAME)).message
        assert met(lambda: not [each for each in threading.enumerate() if each.name.startswith("links")])
    finally:
        over.set()


LARGE = bytes(range(256)) * 8192  # 2 MiB


def test_a_large_object_is_kept_and_asked_about(
    store: Callable[[Line | bytes], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time the store says anew whether this link may read it."""
    warm = link_places._Warm()
    monkeypatch.setattr(link_places, "_warm", warm)
    whole = answer(LARGE, "200 OK", 'etag: "1a2b"', f"content-length: {len(LARGE)}")
    same = answer(b"", "304 Not Modified", 'etag: "1a2b"', "content-length: 0")
    said = [whole]
    served = store(lambda line, _: line.sendall(said[0]))
    of, wanted = Links([served.base]), linked(served.base + NAME + SIGNED, LARGE)
    assert of.below(SET).read([wanted]) == [LARGE]
    assert b"if-none-match" not in served.asked[-1].lower()
    said[0] = same
    for link in (wanted, linked(served.base + NAME + "?another=signature", LARGE)):
        assert of.below(SET).read([link]) == [LARGE]
        assert b'if-none-match: "1a2b"' in served.asked[-1].lower()
    said[0] = answer(b"", "403 Forbidden")
    assert "403" in refused(of, linked(served.base + NAME, LARGE)).message, "what was read for one is not for another"
    said[0] = whole
    assert of.below(SET).read([wanted]) == [LARGE]
    said[0] = same
    other = linked(served.base + NAME, LARGE[1:] + b"x")
    assert "304" in refused(of, other).message, "it is kept by its digest"
    assert "304" in refused(of, linked(served.base + NAME.replace("aa", "ab"), LARGE)).message


def test_what_is_kept_is_bounded(store: Callable[[Line | bytes], Store], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_places, "_warm", link_places._Warm())
    monkeypatch.setattr(limits, "WARM_BYTES", 2 * len(LARGE))
    served = store(answer(LARGE, "200 OK", 'etag: "1"', f"content-length: {len(LARGE)}"))
    for number in range(5):
        Links([served.base]).below(SET).read([linked(f"{served.base}tables/{SET}/{number:032x}", LARGE)])
    assert len(link_places._warm._entries) == 2
    Links([served.base]).below(SET).read([linked(f"{served.base}tables/{SET}/{4:032x}", LARGE)])
    assert b"if-none-match" in served.asked[-1].lower()
    Links([served.base]).below(SET).read([linked(f"{served.base}tables/{SET}/{0:032x}", LARGE)])
    assert b"if-none-match" not in served.asked[-1].lower()


@pytest.mark.parametrize("tag", ["", 'W/"1"', '"a\tb"', "x" * 300])
def test_a_tag_that_is_none_is_not_sent_back(
    store: Callable[[Line | bytes], Store], monkeypatch: pytest.MonkeyPatch, tag: str
) -> None:
    monkeypatch.setattr(link_places, "_warm", link_places._Warm())
    served = store(answer(LARGE, "200 OK", f"etag: {tag}", f"content-length: {len(LARGE)}"))
    for _ in range(2):
        assert Links([served.base]).below(SET).read([linked(served.base + NAME, LARGE)]) == [LARGE]
    assert b"if-none-match" not in served.asked[-1].lower()


def test_no_proxy_of_the_environment_is_used(
    store: Callable[[Line | bytes], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    served, proxy = store(answer(CONTENT)), store(answer(b"from the proxy"))
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, proxy.base)
    assert Links([served.base]).below(SET).read([linked(served.base + NAME)]) == [CONTENT]
    assert proxy.asked == []


def test_https_wants_a_certificate_it_can_trust(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served = Store(lambda line, _: line.sendall(answer(CONTENT)), self_signed(tmp_path))
    assert "no certificate to trust" in refused(Links([served.base]), linked(served.base + NAME)).message
    assert served.asked == []
    trusting = ssl.create_default_context(cafile=str(tmp_path / "server.pem"))
    trusting.check_hostname = False
    monkeypatch.setattr(link_http, "_tls", lambda: trusting)
    assert Links([served.base]).below(SET).read([linked(served.base + NAME)]) == [CONTENT]
    served.close()


def test_an_answer_is_put_once(store: Callable[[Line | bytes], Store]) -> None:
    def take(line: socket.socket, head: bytes) -> None:
        taken.append(head)
        line.sendall(answer(b"", "412 Precondition Failed" if len(taken) > 1 else "200 OK"))

    taken: list[bytes] = []
    served = store(take)
    of = Links([served.base])
    of.below(SET).write(served.base + RESULT + SIGNED, b"x")
    assert b"if-none-match: *" in taken[0].lower()
    with pytest.raises(WireError, match="412"):
        of.below(SET).write(served.base + RESULT + SIGNED, b"x")
    with pytest.raises(WireError, match="leads to no object"):
        of.below(SET).write(served.base + NAME, b"")  # never over a table's own objects


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "a store"
    (place / NAME).parent.mkdir(parents=True)
    (place / NAME).write_bytes(CONTENT)
    return place


def of_folder(folder: Path) -> tuple[Links, str]:
    base = folder.as_uri() + "/"
    return Links([base]), base


def test_a_folders_objects_are_read_and_answers_put(folder: Path) -> None:
    of, base = of_folder(folder)
    assert of.below(SET).read([linked(base + NAME)] * 2) == [CONTENT] * 2
    kept = of.below(SET).write(base + RESULT, CONTENT)
    assert (folder / RESULT).read_bytes() == CONTENT
    assert (kept.bytes, kept.sha256) == (len(CONTENT), hashlib.sha256(CONTENT).hexdigest())
    assert (folder / RESULT).stat().st_mode & 0o777 == 0o600
    with pytest.raises(WireError, match="exists"):
        of.below(SET).write(base + RESULT, b"other")
    assert (folder / RESULT).read_bytes() == CONTENT


def _elsewhere(folder: Path) -> Path:
    other = folder.parent / "elsewhere"
    other.mkdir()
    (other / ("a" * 32)).write_bytes(CONTENT)
    return other


def _symlink(folder: Path) -> None:
    other = _elsewhere(folder)
    (folder / NAME).unlink()
    (folder / NAME).symlink_to(other / ("a" * 32))


def _symlinked_folder(folder: Path) -> None:
    other = _elsewhere(folder)
    (folder / NAME).unlink()
    (folder / NAME).parent.rmdir()
    (folder / NAME).parent.symlink_to(other)


def _pipe(folder: Path) -> None:
    (folder / NAME).unlink()
    os.mkfifo(folder / NAME)


def _directory(folder: Path) -> None:
    (folder / NAME).unlink()
    (folder / NAME).mkdir()


@pytest.mark.parametrize("change", [_symlink, _symlinked_folder, _pipe, _directory, lambda f: (f / NAME).unlink()])
def test_nothing_but_files_of_the_folder_is_read(folder: Path, change: Callable[[Path], None]) -> None:
    of, base = of_folder(folder)
    change(folder)
    refused(of, linked(base + NAME))


def test_a_symlink_takes_no_answer_elsewhere(folder: Path, tmp_path: Path) -> None:
    of, base = of_folder(folder)
    (tmp_path / "victim").mkdir()
    (folder / "results").symlink_to(tmp_path / "victim")
    with pytest.raises(WireError):
        of.below(SET).write(base + RESULT, CONTENT)
    assert list((tmp_path / "victim").iterdir()) == []


@pytest.mark.parametrize(
    "rest",
    [f"../{NAME}", f"%2e%2e/{NAME}", f"prefix/{NAME}", f"{NAME}?x", f"/{NAME}", f"tables/{SET}/../{SET}/{'a' * 32}"],
)
def test_a_file_link_is_exactly_an_objects(folder: Path, rest: str) -> None:
    of, base = of_folder(folder)
    (folder / "prefix").symlink_to(folder)
    assert "leads to no" in refused(of, linked(base + rest)).message


@pytest.mark.parametrize("changed", [{"bytes": 1}, {"bytes": len(CONTENT) + 1}, {"sha256": "0" * 64}])
def test_a_file_is_what_was_said(folder: Path, changed: dict[str, object]) -> None:
    of, base = of_folder(folder)
    refused(of, linked(base + NAME, **changed))


@pytest.mark.parametrize(
    "base",
    [
        "http://a-bucket.s3.amazonaws.com/",
        "https://a-bucket.s3.amazonaws.com",
        "https://user:x@a-bucket/",
        "https:///",
        "ftp://a-bucket/",
        "file://host/folder/",
        "https://a-bucket/?x/",
        "/folder/",
        "",
    ],
)
def test_a_place_is_a_bucket_or_a_folder(base: str) -> None:
    with pytest.raises(ValueError, match="not the URL"):
        Links([base])


def test_the_environment_names_buckets_and_never_folders(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(links, "_own", None)
    monkeypatch.setenv(links.VARIABLE, f"https://a-bucket/, {folder.as_uri()}/")
    with pytest.raises(WireError, match=links.VARIABLE) as caught:
        links.own()
    assert caught.value.code == "settings"
    monkeypatch.delenv(links.VARIABLE)
    assert "leads to no store" in refused(links.own(), linked(f"{folder.as_uri()}/{NAME}")).message
