"""Plans answered without a session, as tests of one step put them."""

from __future__ import annotations

from cleave.ask.files import FileSource
from cleave.ask.finishing import finished, finished_whole
from cleave.ask.plan import AnswerPlan
from cleave.ask.question import DEFAULTS, Answer, Clock, Options, RunningQuestion
from cleave.ask.session import Session
from cleave.ask.threshold import Threshold
from cleave.ask.ways.encrypted import encrypted_sums
from cleave.ask.ways.file import FileWay, local_sums, split_in_time
from cleave.ckks.secret_key import SecretKey
from cleave.deadline import Deadline
from cleave.sql.plan import LocalPlan, QueryPlan
from cleave.table.progress import Progress, Silent
from cleave.table.table import Table
from cleave.transport.base import Transport
from cleave_shared import limits


def question_of(
    options: Options = DEFAULTS, deadline: Deadline | None = None, progress: Progress | None = None
) -> RunningQuestion:
    least = Threshold.of(options, {}).least
    deadline = deadline or Deadline(limits.QUERY_SECONDS)
    return RunningQuestion(options.pad, least, progress or Silent(), deadline, Clock())


def run_query(
    table: Table,
    plan: QueryPlan,
    key: SecretKey,
    transport: Transport,
    progress: Progress,
    options: Options = DEFAULTS,
    deadline: Deadline | None = None,
) -> Answer:
    """Answer `plan` over `table` through `transport`, whose deadline is `deadline`."""
    question = question_of(options, deadline, progress)
    plan, halves = split_in_time(table, plan, question)
    return finished(encrypted_sums(halves, plan, key, transport, question), question)


def run_local(
    table: Table, plan: QueryPlan | LocalPlan, options: Options = DEFAULTS, deadline: Deadline | None = None
) -> Answer:
    """Answer a plan that sends nothing."""
    question = question_of(options, deadline)
    if isinstance(plan, QueryPlan):
        return finished(local_sums(*split_in_time(table, plan, question)), question)
    return finished_whole(_Read(table), AnswerPlan(plan, (FileWay(plan),)), plan, question)


class _Read(FileSource):
    def __init__(self, table: Table) -> None:
        self._table = table


def table_of(session: Session) -> Table:
    """The table of a session over files, which is read."""
    assert isinstance(session.source, FileSource)
    return session.source.read(Silent())
