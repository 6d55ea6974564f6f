"""Key files that KMS keys wrap, against moto: each wrapping opens the key alone, and errors say what is wrong."""

from __future__ import annotations

import base64
import json
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws
from moto.core.exceptions import JsonRESTError
from moto.kms.models import KmsBackend

import cleave
from cleave.ask.opening import kms_of
from cleave.ckks import key_file
from cleave.ckks.key_file import open_key
from cleave.ckks.kms_wrapping import KmsWrapping
from cleave.transport.kms import Kms
from cleave_shared.errors import KeyFileError, ServiceError
from tests.cli.runner import Cli
from tests.samples import write_table
from tests.store.second_key_reader import master_of
from tests.store.second_reader import Table

REGION, ELSEWHERE = "eu-west-1", "ap-south-1"
PASSPHRASE, NEW = "seventeen quiet herons", "eleven loud ibises"
VECTORS = Path(__file__).parents[1] / "vectors" / "key-file"
SQL = "SELECT SUM(age) FROM t"


def decrypt(arn: str, context: dict[str, str], sealed: bytes) -> bytes:
    answer = boto3.client("kms", arn.split(":")[3]).decrypt(KeyId=arn, EncryptionContext=context, CiphertextBlob=sealed)
    return bytes(answer["Plaintext"])


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, str]]:
    """ARNs of two KMS keys, in two regions."""
    monkeypatch.setattr(key_file, "ARGON2", {"iterations": 1, "lanes": 1, "memory_cost": 64})
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        one, other = (boto3.client("kms", each).create_key()["KeyMetadata"]["Arn"] for each in (REGION, ELSEWHERE))
        yield one, other


@pytest.fixture
def key(cli: Cli, keys: tuple[str, str], tmp_path: Path) -> Path:
    """A file that the first KMS key alone wraps."""
    path = tmp_path / "key.json"
    cli.environment["CLEAVE_KEY"] = str(path)
    made = cli.run("key", "new", "--kms", keys[0])
    assert made.exit_code == 0, made.output
    return path


def failing(monkeypatch: pytest.MonkeyPatch, code: str, *operations: str) -> None:
    """Let moto answer `code`, with a text that must not be shown."""

    def fails(*_: object, **__: object) -> None:
        raise JsonRESTError(code, "canary of an answer")

    for name in operations or ("decrypt", "generate_data_key"):
        monkeypatch.setattr(KmsBackend, name, fails)


def ok(cli: Cli, *words: object) -> str:
    done = cli.run(*words)
    assert done.exit_code == 0, done.output
    return done.stderr


def test_a_key_that_a_kms_key_opens_asks_for_no_passphrase(
    cli: Cli, key: Path, keys: tuple[str, str], tmp_path: Path
) -> None:
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    shown = cli.run("key", "show").stdout.splitlines()
    assert shown[3:] == ["passphrase  no", f"kms         {keys[0]}"]
    facts = json.loads(cli.run("key", "show", "--json").stdout)
    assert (facts["wrapped"], facts["kms"]) == (False, [keys[0]])
    write_table(rows := tmp_path / "t.csv", "ward,age\na,1\nb,2\n", ward="plain VARCHAR", age="sealed BIGINT")
    store = ("--store", tmp_path / "store")
    ok(cli, "put", rows, "--table", "t", "--by", "ward", *store)
    assert "3" in cli.run("query", "t", SQL, *store).stdout
    assert cleave.query("t", SQL, store=tmp_path / "store", key=key).rows == [(3,)]
    # a reader without Cleave's code finds the rows
    read = Table(tmp_path / "store", key, "t", master_of(key, decrypt=decrypt))
    values = read.column(read.segments[0], 0)
    assert sorted(int.from_bytes(each or b"", "little") for each in values) == [1, 2]


def test_a_file_shows_kms_no_secret_and_is_bound_to_its_key_id(key: Path, keys: tuple[str, str]) -> None:
    """KMS sees a data key; under another encryption context it decrypts nothing."""
    content = json.loads(key.read_text())
    (wrapping,) = content["wrappings"]
    sealed = base64.b64decode(wrapping["data_key"])
    master = master_of(key, decrypt=decrypt)
    assert decrypt(keys[0], {"cleave-key-id": content["key_id"]}, sealed) != master
    for context in ({}, {"cleave-key-id": "0" * 32}):
        with pytest.raises(ClientError, match="InvalidCiphertextException"):
            decrypt(keys[0], context, sealed)
    with pytest.raises(KeyFileError) as caught:
        cleave.open_key(key, None)
    assert caught.value.message == f"{key}: a KMS key wraps this key, and AWS KMS is not used here"


def test_each_wrapping_opens_the_key_alone_and_no_table_changes(
    cli: Cli, key: Path, keys: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_table(rows := tmp_path / "t.csv", "ward,age\na,1\nb,2\n", ward="plain VARCHAR", age="encrypted BIGINT")
    store = ("--store", tmp_path / "store")
    ok(cli, "put", rows, "--table", "t", "--by", "ward", *store)
    before = {path: path.read_bytes() for path in (tmp_path / "store").rglob("*") if path.is_file()}
    master = master_of(key, decrypt=decrypt)
    assert f"{keys[1]} opens the key too" in ok(cli, "key", "wrap", "--kms", keys[1])
    cli.environment["CLEAVE_NEW_PASSPHRASE"] = PASSPHRASE
    ok(cli, "key", "wrap", "--passphrase")
    assert cli.run("key", "show").stdout.splitlines()[3:] == [
        "passphrase  yes",
        *(f"kms         {each}" for each in keys),
    ]
    for arn in keys:
        assert (
            master_of(key, decrypt=lambda asked, *rest, arn=arn: decrypt(asked, *rest) if asked == arn else forbidden())
            == master
        )
    assert master_of(key, PASSPHRASE.encode()) == master
    removed = ok(cli, "key", "unwrap", keys[0])
    assert "older copies of the file still open with it" in removed
    assert "3" in cli.run("query", "t", SQL, *store).stdout
    cli.environment["CLEAVE_PASSPHRASE"] = PASSPHRASE
    assert "3" in cli.run("query", "t", SQL, *store).stdout
    ok(cli, "key", "unwrap", keys[1])
    failing(monkeypatch, "DisabledException")
    assert "3" in cli.run("query", "t", SQL, *store).stdout
    assert before == {path: path.read_bytes() for path in (tmp_path / "store").rglob("*") if path.is_file()}


def forbidden() -> bytes:
    raise PermissionError


def test_a_passphrase_and_a_kms_key_are_changed_apart(cli: Cli, keys: tuple[str, str], tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    cli.environment |= {"CLEAVE_KEY": str(path), "CLEAVE_PASSPHRASE": PASSPHRASE}
    ok(cli, "key", "new")
    master = master_of(path, PASSPHRASE.encode())
    ok(cli, "key", "wrap", "--kms", keys[0])
    assert master_of(path, PASSPHRASE.encode(), decrypt) == master
    cli.environment["CLEAVE_NEW_PASSPHRASE"] = NEW
    ok(cli, "key", "passphrase")
    assert master_of(path, NEW.encode(), decrypt) == master
    cli.environment["CLEAVE_PASSPHRASE"] = NEW
    assert "has a passphrase" in cli.fails(5, "key", "wrap", "--passphrase")
    ok(cli, "key", "passphrase", "--no-passphrase")
    assert [each["name"] for each in json.loads(path.read_text())["wrappings"]] == ["kms"]
    cli.environment["CLEAVE_PASSPHRASE"] = None
    assert "has no passphrase" in cli.fails(5, "key", "passphrase", "--no-passphrase")
    assert open_key(path, None, kms_of(None)).derive("x")
    assert master_of(path, decrypt=decrypt) == master


def test_a_bare_key_is_not_bare_under_a_kms_key(cli: Cli, keys: tuple[str, str], tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    cli.environment["CLEAVE_KEY"] = str(path)
    ok(cli, "key", "new", "--no-passphrase")
    master = master_of(path)
    ok(cli, "key", "wrap", "--kms", keys[0])
    assert base64.b64encode(master).decode() not in path.read_text()
    assert master_of(path, decrypt=decrypt) == master
    path.chmod(0o644)  # as of a file with a passphrase: it shows nothing
    assert cli.run("key", "export", "-o", tmp_path / "public.json").exit_code == 0


def test_a_copy_keeps_all_wrappings(cli: Cli, key: Path, keys: tuple[str, str], tmp_path: Path) -> None:
    cli.environment["CLEAVE_NEW_PASSPHRASE"] = PASSPHRASE
    ok(cli, "key", "wrap", "--passphrase")
    write_table(rows := tmp_path / "t.csv", "ward,age\na,1\nb,2\n", ward="plain VARCHAR", age="encrypted BIGINT")
    store = ("--store", tmp_path / "store")
    ok(cli, "put", rows, "--table", "t", "--by", "ward", *store)
    ok(cli, "key", "copy", "-o", copy := tmp_path / "copy.json", *store)
    content, copied = (json.loads(each.read_text()) for each in (key, copy))
    assert copied["wrappings"] == content["wrappings"]
    assert len(copied["floors"]) == 1
    assert master_of(copy, PASSPHRASE.encode(), decrypt) == master_of(key, decrypt=decrypt)
    copy.write_text(json.dumps(copied | {"floors": {}}))
    assert "damaged or was changed" in cli.fails(5, "query", "t", SQL, *store, "--key", copy)


def test_an_alias_is_stored_as_its_key(cli: Cli, keys: tuple[str, str], tmp_path: Path) -> None:
    boto3.client("kms", REGION).create_alias(AliasName="alias/cleave/study", TargetKeyId=keys[0])
    alias = f"{keys[0].rpartition(':')[0]}:alias/cleave/study"
    cli.environment["CLEAVE_KEY"] = str(path := tmp_path / "key.json")
    ok(cli, "key", "new", "--kms", alias)
    assert json.loads(path.read_text())["wrappings"][0]["arn"] == keys[0]
    for each in (alias, keys[0]):
        assert f"{each} wraps this key already" in cli.fails(5, "key", "wrap", "--kms", each)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("AccessDeniedException", "these credentials have no right to use it (kms:Decrypt)\nhint: docs/key-file.md"),
        ("DisabledException", "it is disabled\nhint: enable it; if the key file has another wrapping"),
        ("KMSInvalidStateException", "it cannot be used in its state: it may be scheduled for deletion\nhint: cancel"),
        ("InvalidKeyUsageException", "it does not encrypt\nhint: name a symmetric key"),
        ("ThrottlingException", "AWS KMS is too busy or has a fault\nhint: try again"),
        ("ExpiredTokenException", "AWS does not accept these credentials\nhint: log in again"),
        ("StrangeException", "AWS KMS answered StrangeException\nhint: try again"),
        ("not/a word", "AWS KMS answered an error\nhint: try again"),
    ],
)
def test_why_a_kms_key_does_not_open_a_file(
    code: str, said: str, cli: Cli, key: Path, keys: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, code)
    monkeypatch.setattr("time.sleep", lambda _: None)  # botocore waits before it tries again
    told = cli.fails(6, "key", "export", "-o", tmp_path / "public.json")
    assert told.startswith(f"error: {keys[0]}: {said}")
    assert "canary" not in told
    # and none is made that could not be opened again
    failing(monkeypatch, code, "decrypt")
    monkeypatch.setattr("cleave.transport.kms.Kms.data_key", lambda *_: (keys[0], bytes(32), b"sealed"))
    assert cli.fails(6, "key", "new", "--key", tmp_path / "new.json", "--kms", keys[0]).startswith(
        f"error: {keys[0]}: "
    )
    assert not (tmp_path / "new.json").exists()


def test_a_wrapping_of_another_key_is_no_fault_of_kms(
    cli: Cli, key: Path, keys: tuple[str, str], tmp_path: Path
) -> None:
    content = json.loads(key.read_text())
    context = {"cleave-key-id": "0" * 32}
    made = boto3.client("kms", REGION).generate_data_key(KeyId=keys[0], KeySpec="AES_256", EncryptionContext=context)
    content["wrappings"][0]["data_key"] = base64.b64encode(made["CiphertextBlob"]).decode()
    key.write_text(json.dumps(content))
    told = cli.fails(5, "key", "export", "-o", tmp_path / "public.json")
    assert "AWS KMS decrypts no wrapping of this key file with it\nhint: the file is damaged" in told


def test_a_key_of_another_region_is_not_found(cli: Cli, keys: tuple[str, str], tmp_path: Path) -> None:
    moved = keys[0].replace(REGION, ELSEWHERE)
    told = cli.fails(6, "key", "new", "--key", tmp_path / "key.json", "--kms", moved)
    assert told == (
        f"error: {moved}: there is no such key in {ELSEWHERE}\n"
        "hint: a key is in one region and account: check its whole ARN\n"
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("arn", ["1234abcd-12ab-34cd-56ef-1234567890ab", "alias/study", "arn:aws:s3:::bucket"])
def test_a_key_is_named_by_its_whole_arn(arn: str, cli: Cli, tmp_path: Path) -> None:
    told = cli.fails(2, "key", "new", "--key", tmp_path / "key.json", "--kms", arn)
    assert told.startswith(f"error: --kms {arn}: not the ARN of a KMS key\nhint: it names region, account and key")


def test_without_a_network_a_passphrase_still_opens_it(
    cli: Cli, key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.environment["CLEAVE_NEW_PASSPHRASE"] = PASSPHRASE
    ok(cli, "key", "wrap", "--passphrase")

    def unreachable(*_: object, **__: object) -> bytes:
        raise ServiceError("AWS KMS in eu-west-1: AWS cannot be reached (EndpointConnectionError)")

    monkeypatch.setattr("cleave.transport.kms.Kms.decrypt", unreachable)
    # nobody is there to be asked for the passphrase
    told = cli.fails(6, "key", "export", "-o", tmp_path / "public.json")
    assert "AWS KMS in eu-west-1: AWS cannot be reached" in told
    assert "passphrase" not in told
    cli.environment["CLEAVE_PASSPHRASE"] = PASSPHRASE
    ok(cli, "key", "export", "-o", tmp_path / "public.json")


def test_a_network_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copyfile(VECTORS / "kms.json", key := tmp_path / "key.json")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setattr("time.sleep", lambda _: None)
    monkeypatch.setenv("AWS_ENDPOINT_URL_KMS", "http://127.0.0.1:9")
    with pytest.raises(ServiceError, match="AWS KMS in eu-west-1: AWS cannot be reached") as caught:
        cleave.ls(store=tmp_path, key=key)
    assert "AWS_ENDPOINT_URL_KMS" in (caught.value.hint or "")


def test_a_supplied_passphrase_is_the_only_way_that_is_tried(
    cli: Cli, key: Path, keys: tuple[str, str], tmp_path: Path
) -> None:
    cli.environment["CLEAVE_PASSPHRASE"] = PASSPHRASE
    told = cli.fails(5, "key", "export", "-o", tmp_path / "public.json")
    assert "has no passphrase, and one was given: it may not be the key you made" in told
    cli.environment["CLEAVE_PASSPHRASE"] = None
    cli.environment["CLEAVE_NEW_PASSPHRASE"] = PASSPHRASE
    ok(cli, "key", "wrap", "--passphrase")
    cli.environment["CLEAVE_PASSPHRASE"] = NEW
    assert "wrong passphrase" in cli.fails(5, "key", "export", "-o", tmp_path / "public.json")


def test_a_passphrase_is_removed_also_where_it_is_given(cli: Cli, key: Path) -> None:
    cli.environment["CLEAVE_NEW_PASSPHRASE"] = PASSPHRASE
    ok(cli, "key", "wrap", "--passphrase")
    cli.environment["CLEAVE_PASSPHRASE"] = PASSPHRASE
    ok(cli, "key", "unwrap", "passphrase")
    cli.environment["CLEAVE_PASSPHRASE"] = None
    assert "passphrase  no" in cli.run("key", "show").stdout
    assert len(master_of(key, decrypt=decrypt)) == 32


def test_the_last_wrapping_is_not_removed(cli: Cli, key: Path, keys: tuple[str, str]) -> None:
    before = key.read_bytes()
    assert "this is its only wrapping" in cli.fails(5, "key", "unwrap", keys[0])
    assert "has no such wrapping" in cli.fails(5, "key", "unwrap", keys[1])
    assert "has no such wrapping" in cli.fails(5, "key", "unwrap", "passphrase")
    assert key.read_bytes() == before


def test_a_wrapping_goes_only_if_another_one_opens_the_key(
    cli: Cli, key: Path, keys: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ok(cli, "key", "wrap", "--kms", keys[1])
    failing_elsewhere = KmsBackend.decrypt

    def fails(self: KmsBackend, *words: object, **named: object) -> object:
        if self.region_name == ELSEWHERE:
            raise JsonRESTError("KMSInvalidStateException", "pending deletion")
        return failing_elsewhere(self, *words, **named)

    monkeypatch.setattr(KmsBackend, "decrypt", fails)
    before = key.read_bytes()
    assert "scheduled for deletion" in cli.fails(6, "key", "unwrap", keys[0])
    assert key.read_bytes() == before
    ok(cli, "key", "unwrap", keys[1])


def test_a_file_that_could_not_be_read_again_is_not_written(
    cli: Cli, key: Path, keys: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 16 wrappings at most."""
    names = [f"{keys[0].rpartition('/')[0]}/{number}" for number in range(15)]
    made = Kms.data_key

    def another(self: Kms, arn: str, key_id: str) -> tuple[str, bytes, bytes]:
        return (arn, *made(self, keys[0], key_id)[1:])

    monkeypatch.setattr(Kms, "data_key", another)
    master = master_of(key, decrypt=decrypt)
    monkeypatch.setattr(KmsWrapping, "open", lambda *_: master)
    for arn in names:
        ok(cli, "key", "wrap", "--kms", arn)
    before = key.read_bytes()
    assert "has 16 wrappings, which is the most" in cli.fails(5, "key", "wrap", "--kms", keys[1])
    cli.environment["CLEAVE_NEW_PASSPHRASE"] = PASSPHRASE
    told = cli.fails(5, "key", "wrap", "--passphrase")
    assert "is not written, because it could not be read again: wrappings are not 1 to 16" in told
    assert "`cleave key unwrap`" in told
    assert key.read_bytes() == before


def test_options_that_do_not_fit_are_refused(cli: Cli, key: Path, keys: tuple[str, str], tmp_path: Path) -> None:
    assert cli.run("key", "wrap").exit_code == 2
    assert cli.run("key", "wrap", "--kms", keys[0], "--passphrase").exit_code == 2
    new = ("key", "new", "--key", tmp_path / "new.json", "--kms", keys[0])
    assert cli.run(*new, "--no-passphrase").exit_code == 2
    assert cli.run(*new, "--passphrase-fd", "9").exit_code == 2
    assert not (tmp_path / "new.json").exists()
