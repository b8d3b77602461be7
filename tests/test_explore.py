"""The explorer server: responses, refused requests, changes by another process, shutdown; the page in Chromium."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest

import fastanchors as fa
from browser import CHROMIUM, Browser
from fastanchors import report
from fastanchors.cli.explore import _signature
from fastanchors.report import serve
from fastanchors.report.live import RULES, Session
from fastanchors.report.pool import pool_of
from fastanchors.report.serve import ExplorerServer


def rows(m=120, n=15, k=6, seed=0):
    A = fa.datasets.separable(m, n, k, noise=0.01, rng=seed).A
    return A / A.sum(axis=1, keepdims=True)


@contextmanager
def serving(session, k=3):
    with ExplorerServer(session, k=k, rule="spa") as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
            session.close()


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("explore") / "rows.store"
    fa.build(rows(), path, row_names=[f"case {i} <b>" for i in range(120)]).close()
    return path


@pytest.fixture(scope="module")
def server(store):
    with serving(Session(lambda: (fa.open(store), {}), lambda: _signature(store), title="rows <b>")) as server:
        yield server


def ask(server, path, method="GET", headers=None, body=None):
    """Status, headers and content; the path is sent unchanged."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    try:
        connection.request(method, path, body=body, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


def found(server, question):
    status, _, content = ask(server, f"/{server.token}/{question}")
    assert status == 200, content
    return json.loads(content)


def test_any_number_of_anchors_by_any_rule(server):
    A = rows()
    for k in (1, 4, 9):
        data = found(server, f"seek?k={k}&rule=spa")
        assert [step["k"] for step in data["steps"]] == list(range(1, k + 1))
        assert [anchor["row"] for anchor in data["anchors"]] == list(fa.SPA().seek(A, k))
        expected = report.anchor_shares(A, A[fa.SPA().seek(A, k).indices])
        np.testing.assert_allclose(data["steps"][-1]["shares"], expected.shares, atol=1e-6)
    for rule in RULES:
        assert found(server, f"seek?k=4&rule={rule}")["steps"][-1]["k"] == 4
    data = found(server, "seek?k=50&rule=spa")
    assert data["steps"][-1]["k"] == 15
    assert "no more than 15" in data["note"]


def test_stability_is_known_for_every_number(server):
    assert len(found(server, "stability?k=4&rule=auto")["steps"]["4"]["verdicts"]) == 4
    steps = found(server, "stability?k=4&rule=spa")["steps"]
    assert [len(steps[str(k)]["verdicts"]) for k in range(1, 5)] == [1, 2, 3, 4]


def test_more_anchors_than_the_store_has_directions_for(tmp_path):
    A = np.random.default_rng(0).random((200, 30))
    fa.build(A, tmp_path / "few.store", directions=5).close()
    with pytest.raises(fa.errors.InvalidInputError, match="the store keeps 5"), fa.open(tmp_path / "few.store") as S:
        fa.FAS(selection="lifted").seek(S, 12)
    session = Session(lambda: (fa.open(tmp_path / "few.store"), {}), lambda: 0, title="few")
    expected = fa.FAS(selection="lifted").seek(fa.open_matrix(A, normalize="l1"), 12)
    assert [anchor["row"] for anchor in session.seek(12, "lifted")["anchors"]] == list(expected)
    session.close()


def test_rows_are_found_by_name_and_fetched(server):
    assert [row["index"] for row in found(server, "find?q=CASE%2011")["rows"]] == [11, *range(110, 120)]
    assert found(server, "find?q=77")["rows"][0]["index"] == 77
    assert found(server, "find?q=")["rows"] == []
    A = rows()
    row = found(server, "row?index=77&k=3&rule=spa")
    anchors = fa.SPA().seek(A, 3)
    pool = pool_of(fa.open_matrix(A), fa.FAS(selection="spa").seek(A, range(1, 4)))
    products = np.array(row["coordinates"]) @ pool.coordinates(A[anchors.indices]).T * pool.unit**2
    np.testing.assert_allclose(products, A[77] @ A[anchors.indices].T, rtol=1e-6)
    assert row["square"] * pool.unit**2 == pytest.approx(A[77] @ A[77])
    assert row["name"] == "case 77 <b>"


@pytest.mark.parametrize(
    "question",
    [
        "seek?k=0&rule=spa",
        "seek?k=51&rule=spa",
        "seek?k=-1&rule=spa",
        "seek?k=3&rule=x",
        "seek",
        "row?index=120&k=3&rule=spa",
        "row?index=1e9&k=3&rule=spa",
        "seek?k=" + "9" * 30,
        "seek?" + "a=1&" * 20,
        "find?q=%ff",
    ],
)
def test_invalid_requests_get_an_error_message(server, question):
    status, _, content = ask(server, f"/{server.token}/{question}")
    assert status == 400
    assert json.loads(content)["error"]


def test_the_token_is_needed(server):
    for path in ("/", "/state", "/x/state", f"/{server.token[:-1]}/state", f"/{server.token}x/", "//", "/%00/state"):
        status, _, content = ask(server, path)
        assert status == 403, path
        assert server.token not in content.decode()


def test_path_traversal_is_refused(server):
    secret = f"/{server.token}"
    for path in (
        f"{secret}/../state",
        f"{secret}//state",
        f"{secret}/./state",
        f"{secret}/state/",
        f"{secret}/%2e%2e/etc/passwd",
        f"{secret}/../../../../etc/passwd",
        f"{secret}/..%2fstate",
        f"{secret}/page\\..\\x",
        f"{secret}",
        f"{secret}/manifest.json",
        f"http://127.0.0.1{secret}/state",
        f"http://evil.example{secret}/state",
        f"{secret}/state;x",
    ):
        status, _, content = ask(server, path)
        assert status in (403, 404), path
        assert b"root:" not in content


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:{port}"},
        {"Host": "127.0.0.1"},
        {"Host": "127.0.0.1:{port}.evil.example"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "https://127.0.0.1:{port}"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_other_hosts_and_origins_are_refused(server, headers):
    filled = {name: value.replace("{port}", str(server.server_port)) for name, value in headers.items()}
    for question in ("", "state", "seek?k=3&rule=spa"):
        assert ask(server, f"/{server.token}/{question}", headers=filled)[0] == 403


@pytest.mark.parametrize("second", ["Host: {own}", "Origin: http://evil.example", "Sec-Fetch-Site: cross-site"])
def test_a_repeated_header_is_refused(server, second):
    own = f"127.0.0.1:{server.server_port}"
    first = f"Host: {own}\r\nOrigin: http://{own}\r\nSec-Fetch-Site: same-origin\r\n"
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=10) as line:
        line.sendall(f"GET /{server.token}/state HTTP/1.1\r\n{first}{second.format(own=own)}\r\n\r\n".encode())
        assert b" 403 " in line.recv(4096)


def test_oversized_requests_are_refused(server):
    state = f"/{server.token}/state"
    assert ask(server, f"{state}?{'x' * 3000}")[0] == 414
    assert ask(server, f"{state}?{'x' * 70000}")[0] == 414
    assert ask(server, state, headers={"X": "y" * 20000})[0] == 431
    assert ask(server, state, headers={f"X{i}": "y" for i in range(150)})[0] == 431
    assert ask(server, state, body=b"x" * 10)[0] == 413
    assert ask(server, state, headers={"Transfer-Encoding": "chunked"})[0] == 413
    assert ask(server, state)[0] == 200  # and goes on


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "HEAD", "CONNECT", "X"])
def test_only_get_requests_are_accepted(server, method):
    status, headers, _ = ask(server, f"/{server.token}/state", method=method)
    assert status == 501
    assert "Access-Control-Allow-Origin" not in headers


def test_responses_are_not_shared_with_other_origins(server):
    status, headers, content = ask(server, f"/{server.token}/")
    assert status == 200
    assert "Access-Control-Allow-Origin" not in headers
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"
    assert b"rows &lt;b&gt;" in content
    assert b"connect-src 'self'" in content
    assert server.server_address[0] == "127.0.0.1"


def test_search_puts_the_same_name_first_and_counts():
    names = [f"a{i}" for i in range(5000)] + ["a"]
    session = Session(lambda: (fa.open_matrix(np.ones((5001, 4))), {"row_names": names}), lambda: 0, title="names")
    answer = session.find("A")
    assert answer["rows"][0] == {"index": 5000, "name": "a"}
    assert (answer["count"], answer["searched"], len(answer["rows"])) == (5001, None, 20)


def test_clients_that_send_slowly_do_not_block_others(server):
    """More connections than are served at a time, each of which sends a header from time to time."""
    lines = [socket.create_connection(("127.0.0.1", server.server_port), timeout=10) for _ in range(80)]
    try:
        for line in lines:
            with contextlib.suppress(OSError):
                line.sendall(b"GET / HTTP/1.1\r\nX-Header: 1\r\n")
        assert ask(server, f"/{server.token}/state")[0] == 200
        assert lines[0].recv(1) == b""  # the oldest was closed
        late = lines[-1]
        end = time.monotonic() + 30
        try:
            while time.monotonic() < end:
                late.sendall(b"X-Header: 1\r\n")
                time.sleep(0.2)
        except OSError:
            pass  # the time limit is for the whole request, even if it keeps sending
        assert time.monotonic() < end
    finally:
        for line in lines:
            line.close()


def test_slow_and_silent_clients_do_not_block_others(server):
    lines = [socket.create_connection(("127.0.0.1", server.server_port), timeout=10) for _ in range(8)]
    try:
        for line in lines:
            line.sendall(b"GET /")
        assert ask(server, f"/{server.token}/state")[0] == 200
    finally:
        for line in lines:
            line.close()


def test_a_client_that_reads_slowly_gets_no_second_answer_in_the_first(server, monkeypatch):
    monkeypatch.setattr(serve._Handler, "timeout", 0.2)
    monkeypatch.setattr(server.session, "page", lambda k, rule: "a" * 30_000_000)
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=10) as line:
        line.sendall(f"GET /{server.token}/ HTTP/1.1\r\nHost: 127.0.0.1:{server.server_port}\r\n\r\n".encode())
        time.sleep(0.3)  # the buffers are full, and the server waits for no longer
        parts = []
        with contextlib.suppress(ConnectionError):
            while part := line.recv(1 << 20):
                parts.append(part)
        answer = b"".join(parts)
    assert answer.count(b"HTTP/1.0") == 1
    assert len(answer) < 30_000_000


def test_browsers_leave_out_the_usual_port(server, monkeypatch):
    monkeypatch.setattr(server, "server_port", 80)
    assert server.hosts == ("127.0.0.1", "localhost")


def test_commits_of_another_process_are_seen(tmp_path):
    path = tmp_path / "rows.store"
    A = rows()
    fa.build(A, path, normalize=None).close()
    change = (
        "import sys, fastanchors as fa\n"
        "with fa.open(sys.argv[1], mode='r+') as S:\n"
        "    S.append([[9.0] + [0.0] * 14])\n"
    )
    with serving(Session(lambda: (fa.open(path), {}), lambda: _signature(path), title="rows")) as server:
        before = found(server, "seek?k=3&rule=spa")
        revision = found(server, "state")["revision"]
        assert found(server, "state")["revision"] == revision
        subprocess.run([sys.executable, "-c", change, str(path)], check=True)
        assert found(server, "state")["revision"] == revision + 1
        after = found(server, "seek?k=3&rule=spa")
        assert before["shape"][0] == 120
        assert after["shape"][0] == 121
        assert after["anchors"][0]["row"] == 120


def test_after_a_commit_only_changed_rows_are_read(tmp_path, monkeypatch):
    path = tmp_path / "rows.store"
    A = rows(m=6500)  # a pass over fewer rows is cheap, and is made
    fa.build(A, path, normalize=None).close()
    session = Session(lambda: (fa.open(path), {}), lambda: _signature(path), title="rows")
    session.seek(12, "lifted")
    with fa.open(path, mode="r+") as S:
        S.update([7] * 15, range(15), 1.1 * A[5])
        S.append([1.2 * A[6]])
    monkeypatch.setattr("fastanchors.fas.noise_aware.summarise", None)  # a pass over all rows would call it
    after = session.seek(4, "lifted")
    assert after["shape"] == [6501, 15]
    session.close()


def test_a_file_that_is_replaced_is_read_again(tmp_path):
    path = tmp_path / "rows.npy"
    np.save(path, rows())
    with serving(Session(lambda: (fa.open_matrix(path), {}), lambda: _signature(path), title="rows")) as server:
        assert found(server, "seek?k=2&rule=spa")["shape"] == [120, 15]
        np.save(tmp_path / "new.npy", rows(m=50))
        os.replace(tmp_path / "new.npy", path)
        assert found(server, "seek?k=2&rule=spa")["shape"] == [50, 15]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_the_command_serves_until_it_is_stopped(store, how):
    command = [sys.executable, "-m", "fastanchors", "explore", str(store), "-k", "3", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        address = json.loads(process.stdout.readline())["address"]
        assert address.startswith("http://127.0.0.1:")
        port, token = address.removeprefix("http://127.0.0.1:").rstrip("/").split("/")
        connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=20)
        connection.request("GET", f"/{token}/state")
        assert connection.getresponse().status == 200
        connection.close()
        process.send_signal(how)
        more, errors = process.communicate(timeout=20)
    finally:
        process.kill()
    assert more == ""  # one JSON object only
    assert process.returncode == (0 if how == signal.SIGINT else 128 + how)
    assert "Traceback" not in errors


def test_the_command_refuses_what_it_cannot_open(tmp_path):
    command = [sys.executable, "-m", "fastanchors", "explore", str(tmp_path / "none.npy")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.skipif(
    CHROMIUM is None and os.environ.get("CI") != "true", reason="no Chromium on PATH (Debian: apt install chromium)"
)
def test_the_live_page(tmp_path):
    path = tmp_path / "rows.store"
    fa.build(rows(), path, normalize=None, row_names=[f"case {i}" for i in range(120)]).close()

    def wait(condition, seconds=20.0):
        end = time.monotonic() + seconds
        while not browser.ask(condition):
            assert time.monotonic() < end, condition
            time.sleep(0.05)

    session = Session(lambda: (fa.open(path), {}), lambda: _signature(path), title="rows")
    with serving(session) as server, Browser(tmp_path / "profile") as browser:
        browser.size(1000, 800)
        browser.open(server.address)
        assert browser.ask("document.querySelectorAll('#cards > li').length") == 3
        slide = "(e => {e.value = %d; e.dispatchEvent(new Event('input'))})(document.getElementById('k'))"
        browser.ask(slide % 6)
        wait("document.querySelectorAll('#cards > li').length === 7")
        browser.ask(slide % 1)  # known already: no request is sent
        assert browser.ask("document.querySelectorAll('#cards > li').length") == 2
        browser.ask(
            "(e => {e.value = 'case 113'; e.dispatchEvent(new Event('input'))})(document.getElementById('find'))"
        )
        wait("document.querySelectorAll('#found button').length === 1")
        browser.ask("document.querySelector('#found button').click()")
        wait("document.querySelector('#row h4')?.textContent === 'case 113'")
        wait("/Other data from the same source/.test(document.getElementById('sure').textContent)")
        browser.ask(
            "(e => {e.value = 'lifted'; e.dispatchEvent(new Event('change'))})(document.getElementById('rule'))"
        )
        wait("document.querySelectorAll('#curve .dot').length === 1")
        with fa.open(path, mode="r+") as S:
            S.append([[9.0] + [0.0] * 14], row_names=["newcomer"])
        browser.ask("(e => {e.value = 'spa'; e.dispatchEvent(new Event('change'))})(document.getElementById('rule'))")
        wait("document.querySelector('#cards h3').textContent === '1newcomer'")
        with fa.open(path, mode="r+") as S:
            S[3, 0] = 50.0
        wait("document.querySelector('#cards h3').textContent === '1case 3'")
        assert browser.problems == []
        assert all(request.startswith(server.address) or request == "about:blank" for request in browser.requests)
