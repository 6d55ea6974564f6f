"""Contributors of a table: who may add rows, what they add, and what the owner collects."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from cleave.ask.config import config_folder
from cleave.ask.opening import lazy, open_limited
from cleave.ask.options import IDENTITY_VARIABLE, LONGEST_TIMEOUT, Contributing, Place
from cleave.contributions.collect import collect as take
from cleave.contributions.contribute import Contributions, read_invited
from cleave.contributions.invitation import register, remove
from cleave.contributions.lost import clear
from cleave.maintain.facts import Contribution
from cleave.maintain.task import CONTINUES, Task, change, operation
from cleave.store.contribution import folder_of
from cleave.store.first_use import PublicFile, contributor_fingerprint, require_compared
from cleave.store.identity import read_contributor_key
from cleave.store.reader import Opened
from cleave.text.quantities import counted
from cleave_shared.errors import InputError

if TYPE_CHECKING:
    from cleave.ask.options import Data


@operation(Contributing, after=CONTINUES, again=False)
def contribute(task: Task, data: Data, name: str, **options: Unpack[Contributing]) -> Contribution:
    """Add rows to the table `name` that `public_key` was exported for, as `cleave put --public-key` does.

    Only its owner can read them, and adds them with `collect`. `identity`: the file that `cleave key contributor`
    made; else CLEAVE_IDENTITY, else ~/.config/cleave/contributor.pem. `fingerprint`: that of the public key, as its
    owner gave it over another channel; required on first use. A call that was stopped continues when it is made again
    with the same data. Rows that the last call added are not added again, unless `again`: a warning says so, and
    `added` is False.
    """
    if options["batch"] is not None:
        raise InputError("batches are of your own tables", hint="leave the batch's name out")
    if options["public_key"] is None:
        raise InputError("the owner's public key is missing", hint="the owner exports it with `cleave key export`")
    who = Path(options["identity"] or os.environ.get(IDENTITY_VARIABLE) or config_folder() / "contributor.pem")
    invited = read_invited(name, Path(options["public_key"]), who, options["fingerprint"])
    schema = invited.schema if options["schema"] is None else options["schema"]
    unread = lazy(data, schema, name, options["sheet"], flatten=options["flatten"])
    task.say(invited.consent)
    with closing(open_limited(options)) as stores, unread.stream() as rows:
        contributions = Contributions(stores, invited, task.warn)
        head, count, added = contributions.put(rows, task.progress, replace=options["replace"], again=options["again"])
    return Contribution(invited.invitation.table, invited.identity.public, head.version, count, added)


@operation(Place, writes=True)
def add_contributor(task: Task, name: str, contributor: str, contributor_key: str | Path, **_: Unpack[Place]) -> str:
    """Register a contributor by the public half of its identity. Returns the folder that it writes to.

    `contributor_key`: FILE=SHA256:..., or only the file if the key was used here before.
    """
    file = PublicFile.parse(contributor_key)
    public = read_contributor_key(file.path)
    tables = task.tables  # a missing key is reported first
    require_compared("contributor", "--contributor-key", [(file, contributor_fingerprint(public))])
    done = register(tables, name, contributor, public)
    return folder_of(done.manifest.table_id, public)


@change(Place)
def remove_contributor(task: Task, name: str, contributor: str, **_: Unpack[Place]) -> Opened:
    """Remove a contributor and its rows from a table."""
    return remove(task.tables, name, contributor, task.warn)


@change(Place, seconds=LONGEST_TIMEOUT, after=CONTINUES)
def collect(task: Task, name: str, *contributors: str, **_: Unpack[Place]) -> Opened:
    """Take in what `contributors` (none named: all) have put, as `cleave contributor collect` does.

    Returns the table as it is then. A contributor that is refused stops no other; the first refusal is raised at the
    end, with the contributor's name.
    """
    done, collected = take(task.tables, name, task.progress, contributors, task.warn)
    for each in collected:
        parts = f"{counted(len(each.added), 'part')} collected, {len(each.gone)} removed"
        task.say(f"{each.contributor.name}: {parts}")
    return done


@operation(Place, seconds=LONGEST_TIMEOUT, writes=True)
def clear_contributions(task: Task, name: str, **_: Unpack[Place]) -> int:
    """Delete the parts that `collect` names as not collected. Returns how many."""
    return sum(each.parts for each in clear(task.tables, name))
