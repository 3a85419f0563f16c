"""Exchanges of probes between processes: who asks whom, and what is answered."""

import json
import socket
import time

from traceweave.capturing.clock_probes import ProbeServer, ask, parent_of
from traceweave.capturing.recorders import as_json


def test_all_four_times_of_an_exchange_are_in_order() -> None:
    server = ProbeServer()
    server.serve()
    exchanges = ask(server.address)
    server.pause()
    server.close()
    assert len(exchanges) == 50
    assert all(list(times) == sorted(times) for times in exchanges)
    # it is the clock of the profiler's events
    assert abs(exchanges[-1][3] - time.time_ns()) < 10**9


def test_who_does_not_know_the_token_is_not_answered() -> None:
    server = ProbeServer()
    server.serve()
    where = json.loads(server.address)
    assert ask(json.dumps(where | {"token": "00" * 16, "names": ["localhost"]})) == []
    assert len(ask(server.address)) == 50  # others still are
    server.pause()
    server.close()


def test_who_is_not_there_is_not_waited_for() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = {"names": ["127.0.0.1"], "port": taken.getsockname()[1], "token": "00" * 16}
        begun = time.monotonic()
        assert ask(json.dumps(address)) == []
        assert time.monotonic() - begun < 2.0


def test_hosts_are_a_star_and_above_256_a_tree() -> None:
    assert {parent_of(place) for place in range(1, 257)} == {0}
    assert parent_of(257) == 1
    children = [parent_of(place) for place in range(1, 5000)]
    assert max(children.count(place) for place in set(children)) == 256
    assert all(parent < place for place, parent in enumerate(children, 1))


def test_metadata_has_nothing_that_kineto_changes() -> None:
    text = as_json({"path": 'C:\\x "y"\n', "n": [1, None, {"ü": True}]})
    assert "\\" not in text
    assert json.loads(text) == {"path": "C:?x ?y??", "n": [1, None, {"ü": True}]}
