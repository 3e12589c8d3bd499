"""llm-routerctl top: a running instance, live at a terminal, and as one frame for pipes and programs."""

import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
import time

import pytest

import chat
from http_client import Call
from processes import program, wait_until
from scripts import answer, data, hang, head, stream
from tree import Tree, hostile, model

TURNED = "turned\u202edenrut"
TREE = Tree(
    model("quick", hostile("quick-upstream", "k1", id="quick-upstream")),
    model("slow", hostile("a", "k1", id="slow-upstream")),
    model("halting", hostile("a", "k1", id="halting-upstream")),
    model("falling", hostile("a", "dead", id="dead-upstream"), hostile("b", "k1", id="live-upstream")),
    model("racing", hostile("a", "k1", id="silent-upstream"), hostile("b", "k2", id="beside-upstream"), hedgeAfterMs=100),
    # What would turn the rest of the line around, and what is wider than its column.
    model(TURNED, hostile("a", "k1", id="a\u200b" + "b" * 60)),
)

TAKE, GIVE = "\x1b[?1049h", "\x1b[?7h\x1b[?25h\x1b[?1049l"
CONTROLS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e]")


def places(gateway):
    return ["--run-dir", str(gateway.run_dir), "--state-dir", str(gateway.state_dir)]


def top(gateway, *options, **more):
    command = [program("llm-routerctl"), "top", *places(gateway), "--interval", "0.2", *options]
    return subprocess.run(command, env=gateway.environment(), capture_output=True, text=True, timeout=30, check=False, **more)


def frame(gateway):
    done = top(gateway, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def in_hand(gateway, name):
    """The row of the request for this model, if it is in hand with an upstream."""
    return next((row for row in frame(gateway)["requests"] if row["model"] == name and row["upstream"]), None)


@contextlib.contextmanager
def held(gateway, name, *script, stream=False, until=None):
    """A request for this model that does not come to its end."""
    gateway.script(name, "k1", [*script, hang()])
    call = gateway.begin(name, stream=stream)
    if until:
        call.read_until(until)
    yield call
    call.close()
    gateway.spool.wait_event(call.request_id)


def test_a_request_in_hand_is_shown_with_its_stage_model_and_upstream(gateway):
    begun = [head(), data(chat.ROLE), data(chat.HELLO)]
    with contextlib.ExitStack() as calls:
        waiting = calls.enter_context(held(gateway, "slow"))
        row = wait_until(lambda: in_hand(gateway, "slow"), "the request waits for its upstream")
        calls.enter_context(held(gateway, "halting", *begun, stream=True, until="Hello"))
        assert (row["stage"], row["upstream"], row["firstByteUs"]) == ("waiting", "slow-upstream", 0)
        assert (row["endpoint"], row["requestId"]) == ("chat/completions", waiting.request_id)
        assert row["pid"] in gateway.workers() and 0 < row["stageUs"] <= row["ageUs"]
        row = in_hand(gateway, "halting")
        assert (row["stage"], row["upstream"]) == ("streaming", "halting-upstream")
        assert 0 < row["firstByteUs"] < row["ageUs"] and row["firstByteUs"] + row["stageUs"] == row["ageUs"]
        told = frame(gateway)
        assert told["workers"] == {"alive": 8, "idle": 6, "reading": 0, "waiting": 1, "streaming": 1, "finishing": 0}
        assert told["requests"][0]["model"] == "slow", "the oldest comes first"
        lines = top(gateway, "--once").stdout.splitlines()
        assert re.search(r"^workers 8: 6 idle, 0 reading, 1 waiting, 1 streaming, 0 finishing$", "\n".join(lines), re.M)
        [line] = [line for line in lines if " halting " in line]
        assert re.match(r"\d+ +streaming +[\d.]+ m?s +[\d.]+ m?s +[\d.]+ m?s +halting +halting-upstream +chat/completions$", line)
    wait_until(lambda: frame(gateway)["workers"]["idle"] == 8, "nobody works any more")


def test_the_upstream_in_hand_is_that_of_the_attempt_not_of_the_first(gateway):
    gateway.script("falling", "dead", answer(401, "{}"))
    with held(gateway, "falling"):
        row = wait_until(lambda: in_hand(gateway, "falling"), "the request is in hand")
        wait_until(lambda: in_hand(gateway, "falling")["upstream"] == "live-upstream", f"it has fallen back, from {row}")


def test_the_upstream_in_hand_is_the_one_that_is_left_of_two_side_by_side(gateway):
    gateway.script("racing", "k2", answer(500, "{}"))
    before = len(gateway.upstream.records)
    with held(gateway, "racing"):
        beside = gateway.upstream.wait_record(before + 2)
        wait_until(lambda: beside.answered is not None, "the one beside has failed")
        wait_until(lambda: (in_hand(gateway, "racing") or {}).get("upstream") == "silent-upstream", "the first goes on")


def test_no_upstream_of_an_earlier_request_is_shown(start_gateway):
    """A worker's record is used again for the next request."""
    gateway = start_gateway(TREE, workers=1)
    gateway.script("quick", "k1", answer(200, chat.completion()))
    assert gateway.chat("quick").status == 200
    call = Call(gateway.port, b"GET /v1/models HTTP/1.1\r\nhost: h\r\n\r\n")
    assert call.reply().status == 401
    with held(gateway, "slow"):
        assert wait_until(lambda: in_hand(gateway, "slow"), "it is in hand")["upstream"] == "slow-upstream"


def test_the_last_minute_tells_how_requests_ended_and_how_upstreams_did(start_gateway):
    gateway = start_gateway(TREE, workers=2)
    gateway.script("quick", "k1", answer(200, chat.completion()))
    gateway.script("falling", "dead", answer(401, "{}"))
    gateway.script("falling", "k1", answer(200, chat.completion()))
    gateway.script("slow", "k1", answer(500, "{}"))
    before = frame(gateway)["recent"]
    for _ in range(5):
        gateway.chat("quick")
    gateway.chat("falling")
    gateway.chat("slow")
    gateway.script("racing", "k1", [hang()])
    gateway.script("racing", "k2", answer(200, chat.completion()))
    gateway.chat("racing")
    gateway.chat("no-such-model")
    recent = frame(gateway)["recent"]
    change = {name: recent[name] - before[name] for name in ("done", "refused", "failed", "left")}
    assert change == {"done": 7, "refused": 1, "failed": 1, "left": 0}
    upstreams = {row["upstream"]: (row["attempts"], row["failures"], row["beaten"]) for row in recent["upstreams"]}
    assert upstreams == {
        "quick-upstream": (5, 0, 0), "dead-upstream": (1, 1, 0), "live-upstream": (1, 0, 0), "slow-upstream": (1, 1, 0),
        "silent-upstream": (1, 0, 1), "beside-upstream": (1, 0, 0),
    }
    assert recent["upstreams"][0]["upstream"] == "quick-upstream", "the busiest comes first"
    for times in (recent["firstByte"], recent["upstreams"][0]["firstByte"]):
        assert 0 < times["medianUs"] <= times["p95Us"] < 60_000_000
    assert recent["seconds"] == 60
    text = top(gateway, "--once").stdout
    assert "last 60 s: " in text and re.search(r"^dead-upstream +1 +1 +0 +", text, re.M)
    assert re.search(r"^silent-upstream +1 +0 +1 +", text, re.M)


def test_the_rate_is_that_of_the_requests_between_two_looks(gateway):
    gateway.script("quick", "k1", *[answer(200, chat.completion())] * 2000)
    stop = threading.Event()

    def ask():
        while not stop.is_set():
            gateway.chat("quick")

    caller = threading.Thread(target=ask)
    caller.start()
    try:
        wait_until(lambda: frame(gateway)["requestsPerSecond"] > 0, "the rate is above 0")
    finally:
        stop.set()
        caller.join()
    wait_until(lambda: frame(gateway)["requestsPerSecond"] == 0, "the rate is 0 again")


def test_one_frame_for_a_pipe_has_no_control_characters_whatever_names_hold(gateway):
    with held(gateway, TURNED):
        wait_until(lambda: in_hand(gateway, TURNED), "the request is in hand")
        text = top(gateway, "--once").stdout
    assert not CONTROLS.search(text)
    assert re.search(r"turned\?denrut +a\?b{25}… chat/completions", text), text


def test_without_an_instance_one_frame_is_refused(gateway, tmp_path):
    for option in ("--once", "--json"):
        done = top(gateway, option, "--run-dir", str(tmp_path))
        assert done.returncode == 2, "an option stands twice"
    command = [program("llm-routerctl"), "top", "--once", "--run-dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"llm-routerctl top: no llm-router runs in {tmp_path}\n"


@pytest.mark.parametrize("text", ["0", "0.05", "61", "nan", "1s", "", "-1"])
def test_an_interval_that_makes_no_sense_is_refused(gateway, text):
    done = subprocess.run(
        [program("llm-routerctl"), "top", "--once", "--interval", text], capture_output=True, text=True, timeout=20, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "must be 0.1 to 60 seconds" in done.stderr


def test_what_is_no_terminal_is_told_of_once(gateway):
    done = top(gateway)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no terminal" in done.stderr and "--once" in done.stderr


class Terminal:
    """A terminal with top in it, as its controlling program."""

    def __init__(self, gateway, rows=24, columns=120):
        self.master, self.slave = pty.openpty()
        self.resize(rows, columns)
        self.found = termios.tcgetattr(self.slave)
        self.text = ""
        self._lock = threading.Lock()
        self.child = subprocess.Popen(
            [program("llm-routerctl"), "top", *places(gateway), "--interval", "0.1"],
            env=gateway.environment(),
            stdin=self.slave,
            stdout=self.slave,
            stderr=subprocess.PIPE,
            preexec_fn=self._become_controlling,
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _become_controlling(self):
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def _read(self):
        with contextlib.suppress(OSError):
            while True:
                piece = os.read(self.master, 65536).decode()
                with self._lock:
                    self.text += piece

    def resize(self, rows, columns):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def frames(self):
        """The frames so far that are whole, each as its lines."""
        with self._lock:
            text = self.text
        whole = re.findall(r"\x1b\[H((?:[^\x1b]|\x1b\[K)*)\x1b\[J", text)
        return [[line.rstrip("\r").removesuffix("\x1b[K") for line in frame.split("\n")] for frame in whole]

    def wait_for(self, text, since=0):
        """Waits for a frame with this text behind the first `since` frames."""
        wait_until(lambda: any(text in line for lines in self.frames()[since:] for line in lines), f"top shows {text!r}")

    def type(self, keys):
        os.write(self.master, keys.encode())

    def wait_left(self):
        status = self.child.wait(10)
        assert self.child.stderr.read() == b""
        wait_until(lambda: self.text.endswith(GIVE), f"the terminal is given back: {self.text[-60:]!r}")
        return status

    def assert_as_found(self):
        assert termios.tcgetattr(self.slave) == self.found
        assert self.text.count(TAKE) == self.text.count(GIVE)

    def close(self):
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait(10)
        self.child.stderr.close()
        os.close(self.slave)
        os.close(self.master)


@pytest.fixture
def terminal_of():
    opened = []

    def open_terminal(gateway, **size):
        opened.append(Terminal(gateway, **size))
        return opened[-1]

    yield open_terminal
    for terminal in opened:
        terminal.close()


def test_a_terminal_is_shown_frame_after_frame(gateway, terminal_of):
    terminal = terminal_of(gateway)
    terminal.wait_for("no request is in hand")
    with held(gateway, "slow"):
        terminal.wait_for(" slow-upstream ")
    n = len(terminal.frames())
    terminal.wait_for("no request is in hand", since=n)
    assert termios.tcgetattr(terminal.slave) != terminal.found, "keys are neither shown nor kept back"


LEAVING = {
    "q": lambda terminal: terminal.type("q"),
    "Ctrl-C": lambda terminal: terminal.type("\x03"),
    "SIGTERM": lambda terminal: terminal.child.send_signal(signal.SIGTERM),
    "SIGHUP": lambda terminal: terminal.child.send_signal(signal.SIGHUP),
    "SIGQUIT": lambda terminal: terminal.child.send_signal(signal.SIGQUIT),
}


@pytest.mark.parametrize("how", LEAVING)
def test_whoever_ends_it_finds_the_terminal_as_it_was(gateway, terminal_of, how):
    terminal = terminal_of(gateway)
    terminal.wait_for("llm-router ")
    LEAVING[how](terminal)
    assert terminal.wait_left() == 0
    terminal.assert_as_found()


def test_other_keys_are_not_shown_and_do_not_end_it(gateway, terminal_of):
    terminal = terminal_of(gateway)
    terminal.wait_for("llm-router ")
    terminal.type("xyz\n")
    n = len(terminal.frames())
    wait_until(lambda: len(terminal.frames()) > n + 2, "it goes on")
    assert "xyz" not in terminal.text
    terminal.type("q")
    assert terminal.wait_left() == 0


def test_a_stopped_program_gives_the_terminal_back_for_a_while(gateway, terminal_of):
    terminal = terminal_of(gateway)
    terminal.wait_for("llm-router ")
    terminal.child.send_signal(signal.SIGTSTP)
    wait_until(lambda: terminal.text.endswith(GIVE), "the terminal is given back")
    assert termios.tcgetattr(terminal.slave) == terminal.found
    n = len(terminal.frames())
    wait_until(lambda: _state(terminal.child.pid) == "T", "it is stopped")
    terminal.child.send_signal(signal.SIGCONT)
    terminal.wait_for("llm-router ", since=n)
    terminal.type("q")
    assert terminal.wait_left() == 0
    terminal.assert_as_found()
    assert terminal.text.count(TAKE) == 2


def _state(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return file.read().rpartition(")")[2].split()[0]


def test_a_terminal_that_takes_nothing_does_not_keep_it_from_ending(gateway, terminal_of):
    terminal = terminal_of(gateway)
    terminal.wait_for("llm-router ")
    terminal.type("\x13")  # Ctrl-S
    time.sleep(0.5)  # it may be in the middle of a write by then
    terminal.child.send_signal(signal.SIGTERM)
    assert terminal.child.wait(10) == 0


def test_frames_fit_into_a_terminal_of_any_size(gateway, terminal_of):
    gateway.script("falling", "dead", answer(401, "{}"))
    with held(gateway, "slow"), held(gateway, "halting"), held(gateway, "falling"):
        terminal = terminal_of(gateway, rows=40, columns=120)
        terminal.wait_for(" falling ")
        for rows, columns in ((12, 40), (5, 10), (1, 1), (60, 200)):
            n = len(terminal.frames())
            terminal.resize(rows, columns)
            wait_until(lambda: len(terminal.frames()) > n + 2, "there are more frames")
            lines = terminal.frames()[-1]
            assert len(lines) <= rows and max(map(len, lines)) <= columns, lines
        terminal.wait_for("chat/completions", since=n)


def test_an_instance_that_stops_is_noticed_and_the_next_one_followed(start_gateway, terminal_of):
    gateway = start_gateway(TREE, workers=2)
    terminal = terminal_of(gateway)
    first = frame(gateway)["instance"]
    terminal.wait_for(first)
    gateway.router.stop()
    terminal.wait_for("no llm-router runs in")
    gateway.start_router()
    wait_until(gateway._takes_probes, "it listens")
    n = len(terminal.frames())
    second = frame(gateway)["instance"]
    assert second != first
    terminal.wait_for(second, since=n)
    gateway.script("quick", "k1", stream(*chat.GOOD_STREAM))
    wait_until(lambda: gateway.chat("quick", stream=True).status == 200, "it serves")
    terminal.wait_for("quick-upstream", since=n)
    terminal.type("q")
    assert terminal.wait_left() == 0
