"""The live server in its own process, over real sockets, with friendly and hostile clients."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from commands import run_zscout
from live import SERVE, SMALL, Page, Served, page, served, zscout
from waiting import PATIENCE, until

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}


GONE = {"is": "gone", "about": "The server no longer has this run."}


# The page


def test_the_printed_link_opens_the_page_and_the_token_leaves_the_address(server: Served) -> None:
    answer = server.get(server.link.removeprefix(f"http://127.0.0.1:{server.port}"))
    assert (answer.status, answer.getheader("location")) == (303, "/")
    cookie = answer.getheader("set-cookie") or ""
    assert cookie.startswith(server.cookie + ";")
    assert {"httponly", "samesite=lax", "path=/"} <= {part.strip().lower() for part in cookie.split(";")}
    answer = server.get("/", Cookie=server.cookie)
    assert answer.status == 200
    assert (answer.getheader("content-type") or "").startswith("text/html")


@pytest.mark.parametrize(
    ("path", "cookie"),
    [
        ("/", None),
        ("/", "zscout-{port}=wrong"),
        ("/", "zscout-1={token}"),
        ("/?token=wrong", None),
        ("/?token=", None),
        ("/?token={token}x", None),
        ("/?token=wrong", "zscout-{port}={token}"),
        ("/?token=%ff%00%F0%9F%92%A9", None),
    ],
)
def test_without_the_token_the_page_asks_for_it(server: Served, path: str, cookie: str | None) -> None:
    known = {"port": server.port, "token": server.token}
    headers = {} if cookie is None else {"Cookie": cookie.format(**known)}
    answer = server.get(path.format(**known), **headers)
    assert answer.status == 403
    assert answer.getheader("set-cookie") is None
    assert server.token.encode() not in answer.body  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/", 403),
        ("/nothing", 404),
        ("/static/index.html", 200),
        ("/static/nothing.js", 404),
        ("/?token=x", 403),
        ("/ws", 404),
    ],
)
def test_every_response_has_the_security_headers(server: Served, path: str, status: int) -> None:
    answer = server.get(path)
    assert answer.status == status
    for name, begins in HEADERS.items():
        assert (answer.getheader(name) or "").startswith(begins), name
    policy = answer.getheader("content-security-policy") or ""
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "*" not in policy
    assert answer.getheader("server") is None


def test_every_file_of_the_page_is_served_as_what_it_is(server: Served) -> None:
    import zscout.live.server.server

    kinds = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
    page = zscout.live.server.server.PAGE
    files = [path for path in page.rglob("*") if path.is_file()]
    assert {".html", ".css", ".js"} <= {path.suffix for path in files}
    for path in files:
        answer = server.get(f"/static/{path.relative_to(page).as_posix()}")
        assert answer.status == 200, path
        assert (answer.getheader("content-type") or "").split(";")[0] == kinds[path.suffix]
        assert answer.body == path.read_bytes()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "path",
    [
        "/static/../server.py",
        "/static/..%2fserver.py",
        "/static/%2e%2e/server.py",
        "/static/%2e%2e%2fserver.py",
        "/static/..%5cserver.py",
        "/static//../server.py",
        "/static/./../server.py",
        "/static/../../../../../../../../etc/passwd",
        "/static//etc/passwd",
        "/static/%2fetc%2fpasswd",
        "/static/page%00.html",
        "//etc/passwd",
        "/etc/passwd",
        "/../../etc/passwd",
        "/static/",
        "/static",
        "/static/.",
        "/server.py",
    ],
)
def test_nothing_but_the_pages_files_is_served(server: Served, path: str) -> None:
    answer = server.get(path)
    assert answer.status in (400, 404, 307)
    body: bytes = answer.body  # type: ignore[attr-defined]
    assert b"import" not in body
    assert b"root:" not in body


def test_a_host_of_another_name_is_refused(server: Served) -> None:
    link = f"/?token={server.token}"
    for host in (
        "evil.example",
        f"evil.example:{server.port}",
        "127.0.0.1.evil.example",
        "",
        "127.0.0.1:x",
        "[::1",
        "a b",
    ):
        answer = server.get(link, Host=host)
        assert answer.status == 400, host
        assert answer.getheader("set-cookie") is None
    for host in (f"localhost:{server.port}", "127.0.0.1", "127.0.0.1:99999", f"[::1]:{server.port}"):
        assert server.get(link, Host=host).status in (303, 400)
    assert server.get(link, Host=f"localhost:{server.port}").status == 303
    with pytest.raises(InvalidStatus) as refused:
        Page(server, additional_headers={"Origin": f"http://evil.example:{server.port}"})
    assert refused.value.response.status_code == 403


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "https://127.0.0.1:{port}", "null", "http://127.0.0.1", "http://[", ""]
)
def test_a_page_from_elsewhere_is_refused(server: Served, origin: str) -> None:
    with pytest.raises(InvalidStatus) as refused:
        Page(server, origin=origin.format(port=server.port))
    assert refused.value.response.status_code == 403


def test_a_socket_needs_the_token_from_the_cookie_or_the_address(server: Served) -> None:
    for token in ("", "wrong", server.token[:-1]):
        assert Page(server, token=token).closed() == 4401
    own = f"http://127.0.0.1:{server.port}"
    with page(server, token="", additional_headers={"Cookie": server.cookie}, origin=own) as visitor:
        visitor.begin()


# A run


def test_play_pause_step_speed_and_reset(server: Served) -> None:
    with page(server) as visitor:
        visitor.begin(seed=3, reward={"task": 1})
        assert visitor.hear("status")["playing"] is False
        visitor.say("step")
        first = visitor.hear("frame")
        assert first["step"] == 1
        visitor.say("speed", value=30)
        assert visitor.hear("status")["speed"] == 30
        visitor.say("play")
        assert visitor.hear("status")["playing"] is True
        steps = [visitor.hear("frame")["step"] for _ in range(10)]
        assert steps == list(range(2, 12))
        visitor.say("pause")
        newest = 11
        while (answer := visitor.hear())["is"] != "status":  # a step in progress arrives first
            newest = answer["step"]
        assert answer["playing"] is False
        visitor.say("noise", value=0.25)
        answer = visitor.hear()
        assert (answer["is"], answer["playing"], answer["noise"]) == ("status", False, 0.25)
        visitor.say("step")
        assert visitor.hear("frame")["step"] == newest + 1
        visitor.say("play")
        visitor.frame(newest + 3)
        visitor.say("step")  # pauses
        while visitor.hear("status")["playing"]:
            pass
        visitor.say("reset")
        begun = visitor.hear("begun")
        assert begun["resumed"] is False
        assert (begun["setup"]["seed"], begun["setup"]["noise"], begun["setup"]["reward"]) == (3, 0.25, {"task": 1})
        assert visitor.hear("frame")["step"] == 0
        visitor.say("noise", value=0.1)
        visitor.say("step")
        assert visitor.hear("frame") == first  # the same set-up, the same run


def test_reset_and_begin_stop_a_run_at_once(server: Served) -> None:
    with page(server) as visitor:
        visitor.begin()
        visitor.say("speed", value=30)
        for stop in ("reset", "begin") * 8:
            visitor.say("play")
            visitor.frame(2)
            visitor.say(stop, **({"setup": SMALL} if stop == "begin" else {}))
            visitor.hear("begun")
            assert visitor.hear("frame")["step"] == 0
            visitor.hear("status")
            visitor.say("speed", value=30)
            assert visitor.hear()["is"] == "status"  # and no step of the old run


def test_a_person_is_waited_for(server: Served) -> None:
    with page(server) as visitor:
        visitor.begin(who="person", seed=1)
        visitor.say("speed", value=30)
        visitor.say("play")
        assert visitor.frame(1)["sides"][0]["asks"] is True
        while not visitor.hear("status")["waiting"]:
            pass
        visitor.say("give", step=1, value=2)
        again = visitor.hear("frame")
        assert (again["step"], again["sides"][0]["reward"]) == (1, 2)
        visitor.frame(2)  # it continues
        visitor.say("skip", step=2)
        visitor.frame(3)
        assert "got 11.0" in visitor.refusal("give", step=3, value=11)
        visitor.say("wait", value=False)
        visitor.frame(8)


# Disconnecting and resuming


@pytest.mark.parametrize("abruptly", [False, True])
def test_a_lost_connection_is_taken_up_again_where_it_was(server: Served, abruptly: bool) -> None:
    with page(server) as visitor:
        visitor.begin(seed=5, reward={"task": 2})
        visitor.say("speed", value=30)
        visitor.say("play")
        seen = visitor.frame(4)
        (visitor.drop if abruptly else visitor.close)()
    with page(server) as again:
        again.say("resume", run=visitor.key, after=seen["step"] - 2)
        begun = again.hear()
        assert (begun["is"], begun["run"], begun["resumed"]) == ("begun", visitor.key, True)
        assert begun["setup"]["reward"] == {"task": 2}
        assert [again.hear("frame") for _ in range(2)][1] == seen
        status = again.hear("status")
        assert (status["playing"], status["speed"]) == (True, 30)
        steps = [again.hear("frame")["step"] for _ in range(5)]
        assert steps == list(range(steps[0], steps[0] + 5))  # it continues, and no step is missing


def test_the_point_maze_is_played_and_resumed_as_grids_are(server: Served) -> None:
    maze: dict[str, Any] = {"world": "point-maze", "methods": ["thompson"], "seed": 3}
    with page(server) as visitor:
        visitor.say("begin", setup={**maze, "reward": {"task": 2}})  # a direction: every place has another reward
        table = visitor.hear("begun")["reward"]
        # The page begins with such a table when a choice changes: it must fit in a message.
        painted = {**maze, "methods": ["usf-ucb-paper", "random-z"], "seed": 2**31 - 1}
        visitor.say("begin", setup={**painted, "reward": {"table": [round(worth, 3) for worth in table]}})
        assert len(visitor.hear("begun")["reward"]) == len(table)
        visitor.say("begin", setup=maze)
        assert visitor.hear("begun")["setup"]["features"] == "learned"
        visitor.frame(0)
        visitor.say("paint", cells=[0, 1, 22, 23], value=1)
        assert sum(visitor.hear("reward")["reward"]) == 4
        visitor.say("speed", value=30)
        visitor.say("play")
        seen = visitor.frame(6)
        visitor.drop()
    with page(server) as again:
        again.say("resume", run=visitor.key, after=seen["step"] - 1)
        assert again.hear("frame") == seen
        following = again.frame(seen["step"] + 1)["sides"][0]
        assert following["path"][0] == pytest.approx(seen["sides"][0]["path"][-1], abs=1e-3)
        again.say("reset")
        again.hear("begun")
        assert again.frame(0)["step"] == 0


def test_a_wrong_key_gives_no_run(server: Served) -> None:
    with page(server) as owner:
        owner.begin()
    with page(server) as again:
        wrong: list[Any] = [owner.key[:-1], owner.key + "A", "", "A" * 22, 0, None, [owner.key], {"run": owner.key}]
        for key in wrong:
            again.say("resume", run=key, after=0)
            assert again.hear() == GONE
        for after in (-2, 10**9, "0", None, 1.5, True):
            assert "after must be the last step" in again.refusal("resume", run=owner.key, after=after)
        assert "no run yet" in again.refusal("step")
        again.say("resume", run=owner.key, after=0)  # the refused messages did not affect it
        assert again.hear()["is"] == "begun"
        again.say("step")
        assert again.frame(1)["step"] == 1


def test_the_second_page_takes_the_run_over_and_the_first_is_told(server: Served) -> None:
    with contextlib.closing(Page(server)) as first:
        first.begin()
        first.say("speed", value=30)
        first.say("play")
        seen = first.frame(3)["step"]
        with contextlib.closing(Page(server)) as second:
            assert first.closed() == 4409
            hello = second.hear()
            assert (hello["is"], hello["run"]) == ("hello", first.key)
            second.say("resume", run=hello["run"], after=-1)
            assert second.hear()["is"] == "begun"
            assert [second.hear("frame")["step"] for _ in range(seen + 1)] == [*range(seen + 1)]
            second.frame(seen + 5)  # it plays on
            with page(server) as third:
                assert second.closed() == 4409
                third.begin()
                assert third.key != first.key


def test_a_run_without_a_page_does_not_move(server: Served) -> None:
    with page(server) as visitor:
        visitor.begin()
        visitor.say("speed", value=30)
        visitor.say("play")
        while not visitor.hear("status")["playing"]:
            pass
    with page(server) as again:
        again.say("resume", run=visitor.key, after=-1)
        again.hear("begun")
        missed = []
        while (answer := again.hear("frame", "status"))["is"] == "frame":
            missed.append(answer["step"])
        assert answer["playing"]
        assert missed == [*range(len(missed))]
        again.say("pause")
        while again.hear("status")["playing"]:
            pass
    with page(server) as later:  # paused: what it has now, it has later
        later.say("resume", run=visitor.key, after=-1)
        kept = []
        while (answer := later.hear("begun", "frame", "status"))["is"] != "status":
            kept.append(answer)
        assert (answer["playing"], kept[0]["is"]) == (False, "begun")
        later.say("step")
        assert later.hear("frame")["step"] == len(kept) - 1


def test_a_run_ends_after_the_most_steps() -> None:
    with served("--steps", "3") as small:
        with page(small) as one:
            one.begin()
            one.say("speed", value=30)
            one.say("play")
            one.frame(3)
            status = one.hear("status")
            assert (status["ended"], status["playing"]) == (True, False)
            assert "at most 3 steps" in one.refusal("step")
            one.say("reset")
            one.hear("begun")
            status = one.hear("status")
            assert (status["ended"], status["playing"], status["waiting"]) == (False, False, False)
        assert small.said == []


@pytest.mark.long
@pytest.mark.parametrize("seconds", [5.0, 1e6])
def test_a_page_that_does_not_read_loses_its_run_to_the_next_one(seconds: float) -> None:
    with served(script=SERVE.format(limits=f"send_seconds={seconds}, rate=1e9, burst=1e9")) as running:
        with _deaf(running) as (key, newest):
            before = running.memory
            with page(running) as again:
                again.say("resume", run=key, after=newest)
                assert again.hear()["is"] == "begun"
                again.say("step")
                again.frame(newest + 1)
                assert running.memory - before < 20 * 2**20  # the unread messages are 40 MB
        assert running.said == []


@contextlib.contextmanager
def _deaf(server: Served) -> Iterator[tuple[str, int]]:
    """A page that requests 40 MB and never reads it; yields its run and newest step."""
    with page(server) as visitor:
        visitor.begin(features="laplacian-fine", methods=["random", "greedy"])
        visitor.say("speed", value=30)
        visitor.say("play")
        visitor.frame(80)
        visitor.say("pause")
        visitor.say("noise", value=0.2)
        newest = 80
        while (answer := visitor.hear("frame", "status")).get("noise") != 0.2:
            newest = answer.get("step", newest)
        visitor.say("export")
        asked = 40 * 2**20 // len(json.dumps(visitor.hear("export"))) + 1
    head = (
        f"GET /ws?token={server.token} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    with socket.socket() as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        line.connect(("127.0.0.1", server.port))
        line.sendall(head.encode())
        until(lambda: b"101" in line.recv(64, socket.MSG_PEEK), "no answer")
        for said in [
            {"do": "resume", "run": visitor.key, "after": newest},
            *[{"do": "export"}] * asked,
            {"do": "play"},
        ]:
            text = json.dumps(said).encode()
            line.sendall(bytes([0x81, 0x80 | len(text)]) + bytes(4) + text)  # a masked text frame
        yield visitor.key, newest


# Invalid messages

BAD: list[tuple[str | bytes, str]] = [  # a message, and the name of what is wrong with it
    *((text, "JSON object") for text in ("", "{", "[]", "null", '"play"', "1e999", '{"do":"step"', "[" * 4000)),
    *((f'{{"do":"speed","value":{number}}}', "JSON object") for number in ("NaN", "Infinity")),
    ("{}", '"do"'),
    *(
        (f'{{"do":{name}}}', '"do"')
        for name in ("null", '["step"]', '{"do":"step"}', '"__class__"', '"_hide"', '"setup"')
    ),
    ('{"do":"<script>alert(1)</script>"}', '"do"'),
    ('{"Do":"step"}', '"do"'),
    ('{"do":"step","step":1}', '"step"'),
    ('{"do":"play","__proto__":{}}', '"play"'),
    ('{"do":"speed"}', "value"),
    ('{"do":"speed","value":5,"values":5}', "value"),
    ('{"do":"give","value":5}', "step and value"),
    ('{"do":"begin"}', "setup"),
    ('{"do":"begin","setup":{"world":"../../etc/passwd"}}', "'../../etc/passwd'"),
    ('{"do":"begin","setup":{"methods":["os:system"]}}', "'os:system'"),
    *((f'{{"do":"speed","value":{bad}}}', "speed") for bad in (51, 0, "1e999", "true", '"5"', "[]", "9" * 4000)),
    ('{"do":"paint","cells":[81],"value":1}', "state 81"),
    ('{"do":"silence","value":"\\ud800"}', "silence"),
    ('{"do":"give","step":1,"value":1}', "person"),
    ('{"do":"export"}', "no step"),
    ('{"do":"show","z":[0]}', "bodies"),
    *((long, "4096 bytes") for long in (" " * 4097, "€" * 1400)),
    *((raw, "text") for raw in (b'{"do":"step"}', b"\xff\xfe", b"")),
]


def test_an_invalid_message_gets_an_error_and_the_run_continues(server: Served) -> None:
    with page(server) as visitor:
        for do, fields in (
            ("step", {}),
            ("play", {}),
            ("reset", {}),
            ("give", {"step": 1, "value": 1}),
            ("export", {}),
        ):
            assert "no run yet" in visitor.refusal(do, **fields)
        visitor.begin()
        assert visitor.hear()["is"] == "status"
        for text, why in BAD:
            visitor.socket.send(text)
            answer = visitor.hear()
            assert answer["is"] == "error", (text, answer)
            assert why in answer["about"], (text, answer)
            assert len(answer["about"]) <= 241
            assert "\n" not in answer["about"]
        visitor.say("step")
        assert visitor.hear("frame")["step"] == 1


def test_a_message_that_is_far_too_long_ends_the_connection_and_not_the_run(server: Served) -> None:
    with page(server) as visitor:
        visitor.begin()
        visitor.say("step")
        visitor.frame(1)
        assert "at most 4096 bytes" in visitor.refused("x" * 70_000)
        visitor.socket.send("x" * 2_000_000)
        assert visitor.closed() == 1009
    with page(server) as again:
        again.say("resume", run=visitor.key, after=0)
        assert again.hear()["is"] == "begun"
        assert again.frame(1)["step"] == 1


def test_a_message_that_unpacks_to_far_too_much_ends_the_connection(server: Served) -> None:
    with page(server, compression="deflate") as visitor:
        visitor.socket.send(" " * 10_000_000)  # ten kilobytes compressed
        assert visitor.closed() == 1009


def test_too_many_messages_are_left_out_and_then_the_connection_is_ended(server: Served) -> None:
    with page(server) as visitor:
        visitor.begin()

        def heard_after(do: str, **fields: Any) -> list[Any]:
            visitor.say(do, **fields)
            heard = []
            with contextlib.suppress(TimeoutError):
                while True:
                    heard.append(json.loads(visitor.socket.recv(0)))
            return heard

        def refused() -> bool:
            """Whether one of 200 messages at once is left out; the others are answered by a status each."""
            for _ in range(200):
                visitor.say("pause")
            answered = 0
            while answered < 200:
                answer = visitor.hear()
                assert answer["is"] in ("frame", "status", "error")
                if "at most 50 messages a second" in answer.get("about", ""):
                    return True
                answered += answer["is"] == "status"
            return False

        until(refused, "none is left out", pause=lambda: None)
        # Fewer than 50 a second are allowed again
        until(lambda: any(one["is"] == "reward" for one in heard_after("task", number=1)), "all are left out")
        with contextlib.suppress(ConnectionClosed):
            until(lambda: heard_after("pause") is None, "the connection is not ended", pause=lambda: None)
        assert visitor.closed() == 4429
    with page(server) as again:
        again.say("resume", run=visitor.key, after=0)
        assert again.hear()["is"] == "begun"


# The program


def ended(server: Served, by: signal.Signals = signal.SIGINT) -> tuple[int, str]:
    """Send a signal; returns the exit code and the rest of the output."""
    assert server.process.stdout is not None
    os.kill(server.process.pid, by)
    said = server.process.stdout.read()
    return server.process.wait(PATIENCE), said


@pytest.mark.parametrize("by", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_ctrl_c_ends_it_in_one_line_and_leaves_no_process(by: signal.Signals) -> None:
    with served() as running:
        with page(running) as visitor:
            visitor.begin(reward={"task": 1})
            visitor.say("play")
            visitor.frame(2)
            started = running.children
            assert len(running.workers) == 1
            code, said = ended(running, by)
            assert visitor.closed() == 1012
        assert code == 0
        assert said.endswith("ended.\n")
        assert running.said == []
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in started), "processes are left")


@pytest.mark.parametrize("somebody", [True, pytest.param(False, marks=pytest.mark.long)])
def test_ctrl_c_before_it_is_ready_is_as_clean(somebody: bool) -> None:
    with served() as running, contextlib.ExitStack() as stack:
        until(lambda: running.children, "no process holds the run")
        if somebody:
            visitor = Page(running)
            stack.callback(visitor.close)
        code, said = ended(running)
        assert (code, said.count("\n"), running.said) == (0, 2, [])


@pytest.mark.long
def test_a_server_that_was_killed_leaves_no_process() -> None:
    with served() as running:
        with page(running) as visitor:
            visitor.begin()
            started = running.children
            assert started
            running.process.kill()
        until(lambda: not any(_lives(pid) for pid in started), "processes are left")


def _lives(pid: int) -> bool:
    try:
        return not re.search(r"^State:\s+Z", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_port_in_use_is_said_in_one_line_that_names_a_free_one(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run_zscout([*zscout()[3:], "--port", str(port)], tmp_path)
    assert done.returncode == 2
    found = re.fullmatch(rf"zscout: port {port} .*--port (\d+) .*\n", done.stderr)
    assert found is not None, done.stderr
    with socket.create_server(("127.0.0.1", int(found[1]))):
        pass


MISTAKES = {  # options, and the name of what is wrong with them
    "--port 70000": "--port",
    "--steps 0": "--steps",
    "--host no.such.host.invalid": "'no.such.host.invalid'",
    "--host 192.0.2.1": "192.0.2.1",
}


def test_a_users_mistake_is_one_line_that_names_it_and_exit_code_2(tmp_path: Path) -> None:
    for options, name in MISTAKES.items():
        done = run_zscout([*zscout()[3:], *options.split()], tmp_path)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), options
        assert name in done.stderr, options


def test_listening_to_everyone_warns_and_still_wants_the_token() -> None:
    process = subprocess.Popen(zscout("--host", "0.0.0.0"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        warning, link = process.stdout.readline(), process.stdout.readline()
        assert warning.startswith("Warning: 0.0.0.0 can be reached from other machines. Whoever has the link can use")
        assert "not encrypted" in warning
        open_to_all = Served(process, link[link.index("http://") :].strip())
        assert open_to_all.link.startswith("http://127.0.0.1:")
        assert open_to_all.get("/", Host="my-machine.local").status == 403
        assert Page(open_to_all, token="wrong").closed() == 4401
        with pytest.raises(InvalidStatus):
            Page(open_to_all, origin="http://evil.example")
        with page(open_to_all) as visitor:
            visitor.begin()
    finally:
        process.kill()
        process.communicate()


def test_a_missing_dependency_is_named_with_the_install_command() -> None:
    hide = (
        "import importlib.util, sys\n"
        "find = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *rest: None if name == 'uvicorn' else find(name, *rest)\n"
        "sys.modules['uvicorn'] = None\n"
        "from zscout.cli import main\n"
        "main(['live', '--no-browser', '--port', '0'])\n"
    )
    done = subprocess.run([sys.executable, "-c", hide], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 2
    assert "pip install -e '.[live]'" in done.stderr


@pytest.mark.parametrize("playing", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_process_that_was_killed_takes_its_run_with_it_and_nothing_else(playing: bool) -> None:
    with served() as running:
        with page(running) as visitor:
            visitor.begin()
            visitor.say("speed", value=30)
            if playing:
                visitor.say("play")
                visitor.frame(2)
            [worker] = running.workers
            os.kill(worker, signal.SIGKILL)
            if not playing:
                visitor.say("step")
            ended_so = "The process of this run ended and was restarted."
            assert visitor.hear("gone") == {"is": "gone", "about": ended_so}
            lost = visitor.key
            visitor.say("resume", run=lost, after=0)
            assert visitor.hear("gone") == GONE
            visitor.begin()
            visitor.say("step")
            assert visitor.frame(1)["step"] == 1
            assert worker not in running.workers
        assert ended(running)[0] == 0
        assert running.said == []


@pytest.mark.long
def test_a_process_killed_while_it_starts_is_started_again() -> None:
    with served() as running:
        until(lambda: running.workers, "no process holds the run")
        [worker] = running.workers
        os.kill(worker, signal.SIGKILL)
        for _ in range(2):
            with page(running) as visitor:
                visitor.begin()
                visitor.say("step")
                assert visitor.frame(1)["step"] == 1
        assert running.said == []


def test_a_process_killed_while_nobody_is_there_is_noticed_by_nobody(server: Served) -> None:
    with page(server) as visitor:
        [worker] = server.workers
        os.kill(worker, signal.SIGKILL)
        until(lambda: worker not in server.workers, "it lives")
        visitor.say("begin", setup=SMALL)
        assert visitor.hear()["is"] == "begun"
