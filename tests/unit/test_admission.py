"""Admission of connections: whoever comes in crowds leaves room for others."""

from __future__ import annotations

import random

import pytest

from cleave.front.admission import ANYONE, Admission, Admitted


class Crowd:
    """Connections; `closed` are those that were asked to end, in order."""

    def __init__(self, most: int, waiting: int) -> None:
        self.admission = Admission(most, waiting)
        self.closed: list[Admitted] = []

    def enter(self, address: str = "192.0.2.1") -> Admitted:
        admitted = self.admission.enter(address, lambda: self.closed.append(admitted))
        return admitted

    def taken(self, user: str) -> int:
        """Enter and take, until one is refused."""
        count = 0
        while self.enter().take(user):
            count += 1
        return count


def test_a_user_gets_half_at_most_and_the_next_a_share_of_what_is_left() -> None:
    crowd = Crowd(256, 10)
    assert [crowd.taken(user) for user in "abc"] == [128, 64, 32]
    assert crowd.enter().take("d")


def test_users_who_come_together_get_the_same() -> None:
    crowd = Crowd(300, 10)
    taken = [user for _ in range(150) for user in "ab" if crowd.enter().take(user)]
    assert (taken.count("a"), taken.count("b")) == (100, 100)


def test_a_user_who_ends_some_gets_others() -> None:
    crowd = Crowd(4, 10)
    first = crowd.enter()
    assert first.take("a")
    assert crowd.taken("a") == 1
    first.give_back("a")
    assert crowd.taken("a") == 1


def test_anyone_takes_all() -> None:
    assert Crowd(32, 40).taken(ANYONE) == 32


def test_silent_connections_push_each_other_out_and_keep_nobody_out() -> None:
    crowd = Crowd(2, 100)
    silent = [crowd.enter() for _ in range(300)]
    assert crowd.closed == silent[:200]
    newcomer = crowd.enter()
    assert crowd.closed == silent[:201]
    assert newcomer.take("a")


@pytest.mark.parametrize("crowded", ["198.51.100.7", "2001:db8::"])
def test_the_address_with_most_loses(crowded: str) -> None:
    """Of IPv6 all addresses of one network: whoever has one may use all."""
    crowd = Crowd(2, 10)
    patient = crowd.enter("192.0.2.9")
    many = [crowd.enter(f"{crowded}{number}" if ":" in crowded else crowded) for number in range(50)]
    assert patient not in crowd.closed
    assert crowd.closed == many[:41]


def test_users_connections_are_not_closed_for_silent_ones() -> None:
    crowd = Crowd(10, 4)
    mine = [crowd.enter() for _ in range(4)]
    assert all(each.take("a") for each in mine)
    for _ in range(50):
        crowd.enter()
    assert not {*mine} & {*crowd.closed}


def test_work_that_outlives_its_connection_keeps_its_user() -> None:
    crowd = Crowd(1, 10)
    first = crowd.enter()
    assert first.take(ANYONE)
    first.leave()
    assert not crowd.enter().take(ANYONE)
    first.give_back(ANYONE)
    assert crowd.enter().take(ANYONE)


def test_a_request_may_come_before_the_end_of_the_last() -> None:
    """uvicorn starts the next of a connection once an answer is sent, and not once its application has returned."""
    crowd = Crowd(4, 1)
    connection = crowd.enter()
    assert connection.take("a")
    assert connection.take("b")
    connection.give_back("a")
    crowd.enter()
    crowd.enter()
    assert connection not in crowd.closed
    connection.give_back("b")
    assert crowd.taken(ANYONE) == 4


def test_no_connection_is_lost_or_given_twice() -> None:
    source, crowd = random.Random(5), Crowd(9, 7)
    there: list[Admitted] = []
    mine: dict[Admitted, str] = {}
    for _ in range(5_000):
        connection = (
            source.choice(there) if there and source.random() < 0.7 else crowd.enter(f"192.0.2.{source.randrange(4)}")
        )
        if connection not in there:
            there.append(connection)
        if connection in mine and source.random() < 0.5:
            connection.give_back(mine.pop(connection))
        elif connection not in mine and connection not in crowd.closed and source.random() < 0.7:
            user = source.choice("abc")
            held, free = list(mine.values()).count(user), 9 - len(mine)
            assert connection.take(user) == (held < free)
            mine |= {connection: user} if held < free else {}
        else:
            connection.leave()
            if connection in mine:
                connection.give_back(mine.pop(connection))
        for each in {*there} & {*crowd.closed} - mine.keys() | {connection} - mine.keys():
            each.leave()
            there.remove(each)
        assert len(there) - len(mine) <= 7
