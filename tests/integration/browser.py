"""A headless Chromium, spoken to over its debugging protocol through a pair of pipes, so that
neither a driver nor a port is needed. What is on a page is found as assistive technology finds
it, by role and name; what is done to it are keys and clicks of the browser's own."""

import fcntl
import json
import os
import select
import signal
import subprocess
import tempfile
import time

PROGRAM = "chromium-headless-shell"
ANSWER_S = 30  # on a busy machine


class Browser:
    def __init__(self, folder):
        self._folder = folder
        self._profile = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        self._last_id = 0
        self._unread = b""
        self._events = []
        to_browser, from_browser = _pipe(), _pipe()

        def take_pipes():
            os.dup2(to_browser[0], 3)
            os.dup2(from_browser[1], 4)

        with (folder / "chromium.log").open("ab") as log:
            self._child = subprocess.Popen(
                # root has no user namespace of its own to sandbox in; what is loaded here is ours
                [PROGRAM, "--remote-debugging-pipe", f"--user-data-dir={self._profile.name}", "--no-first-run"]
                + ["--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking", "--no-proxy-server"]
                + (["--no-sandbox"] if os.geteuid() == 0 else []),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(3, 4),
                preexec_fn=take_pipes,
                start_new_session=True,
            )
        os.close(to_browser[0])
        os.close(from_browser[1])
        self._to, self._from = to_browser[1], from_browser[0]

    def stop(self):
        try:
            self.command("Browser.close")
            self._child.wait(10)
        finally:
            try:
                os.killpg(self._child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self._child.wait(10)
            os.close(self._to)
            os.close(self._from)
            self._profile.cleanup()

    def command(self, method, session=None, **parameters):
        """The answer to a command; what happens meanwhile is kept for take_events."""
        self._last_id += 1
        message = {"id": self._last_id, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + ANSWER_S
        while True:
            message = self._read(deadline, method)
            if message.get("id") == self._last_id:
                if "error" in message:
                    raise AssertionError(f"{method}: {message['error']}")
                return message["result"]
            self._events.append(message)

    def take_events(self, session):
        """What has happened in a page since the last call."""
        taken = [event for event in self._events if event.get("sessionId") == session]
        self._events = [event for event in self._events if event.get("sessionId") != session]
        return taken

    def _read(self, deadline, what):
        while b"\0" not in self._unread:
            left = deadline - time.monotonic()
            assert left > 0 and select.select([self._from], [], [], left)[0], f"{what} has no answer"
            data = os.read(self._from, 1 << 20)
            assert data, f"Chromium has ended: {(self._folder / 'chromium.log').read_text()[-2000:]}"
            self._unread += data
        message, _, self._unread = self._unread.partition(b"\0")
        return json.loads(message)

    def open(self, url):
        return Page(self, url)


def _pipe():
    """Both ends out of the way of descriptors 3 and 4."""
    ends = os.pipe()
    moved = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends]
    for end in ends:
        os.close(end)
    return moved


KEYS = {
    "Tab": {"code": "Tab", "windowsVirtualKeyCode": 9},
    "Enter": {"code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"},
    " ": {"code": "Space", "windowsVirtualKeyCode": 32, "text": " "},
    "ArrowDown": {"code": "ArrowDown", "windowsVirtualKeyCode": 40},
}


class Page:
    """One page, with a storage of its own, whose downloads go into a folder."""

    def __init__(self, browser, url):
        self._browser = browser
        self._context = browser.command("Target.createBrowserContext")["browserContextId"]
        self._target = browser.command("Target.createTarget", url="about:blank", browserContextId=self._context)["targetId"]
        self._session = browser.command("Target.attachToTarget", targetId=self._target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "DOM", "Accessibility"):
            self.command(f"{domain}.enable")
        self._events = []
        self._expected = []
        self._waited = {}
        self.go(url)

    def close(self):
        self._browser.command("Target.disposeBrowserContext", browserContextId=self._context)

    def command(self, method, **parameters):
        return self._browser.command(method, self._session, **parameters)

    def go(self, url):
        answer = self.command("Page.navigate", url=url)
        assert "errorText" not in answer, answer
        self.wait_for("document.readyState === 'complete'")

    def allow_downloads(self, folder):
        self._browser.command(
            "Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder), browserContextId=self._context
        )

    # What it says

    def events(self, method):
        """All of a kind so far."""
        self._events += self._browser.take_events(self._session)
        return [event["params"] for event in self._events if event["method"] == method]

    def wait_event(self, method):
        """The next of a kind that has not been waited for."""
        end = time.monotonic() + ANSWER_S
        seen = self._waited.setdefault(method, 0)
        while len(found := self.events(method)) == seen:
            assert time.monotonic() < end, f"there is no {method}"
            self.command("Runtime.evaluate", expression="0")  # what has happened is told before its answer
        self._waited[method] += 1
        return found[seen]

    def complaints(self):
        """What a developer would see in the console: exceptions, violations of its policy, failed requests."""
        self.evaluate("0")  # whatever happened before has been told by then
        thrown = [event["exceptionDetails"] for event in self.events("Runtime.exceptionThrown")]
        logged = [event["entry"] for event in self.events("Log.entryAdded")]
        said = [event["args"] for event in self.events("Runtime.consoleAPICalled")]
        texts = [json.dumps(each) for each in thrown + logged + said]
        return [text for text in texts if not any(words in text for words in self._expected)]

    def expect_complaint(self, words):
        """There is one with these words, which is as it should be."""
        end = time.monotonic() + ANSWER_S
        while not any(words in text for text in self.complaints()):
            assert time.monotonic() < end, f"nothing complains of {words}"
            time.sleep(0.02)
        self._expected.append(words)

    def evaluate(self, expression):
        """The value of an expression, or of the promise that it is."""
        answer = self.command("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, condition, timeout=ANSWER_S):
        """Until an expression has a value that is true, which is returned."""
        end = time.monotonic() + timeout
        while not (value := self.evaluate(condition)):
            assert time.monotonic() < end, f"after {timeout} s still not: {condition}\n{self.text()}"
            time.sleep(0.02)
        return value

    def text(self):
        return self.evaluate("document.body.innerText")

    # What is on it

    def nodes(self, role, name=None):
        """Elements of this role, of this name if one is given, that are not hidden."""
        root = self.command("DOM.getDocument", depth=0)["root"]["nodeId"]
        found = self.command("Accessibility.queryAXTree", nodeId=root, role=role)["nodes"]
        nodes = [Node(self, node) for node in found if not node["ignored"]]
        return [node for node in nodes if name in (None, node.name)]

    def node(self, role, name):
        """The one element of this role and name, as soon as it is there."""
        end = time.monotonic() + ANSWER_S
        while len(found := self.nodes(role, name)) != 1:
            assert time.monotonic() < end, f"the page has {len(found)} of {role} “{name}”:\n{self.text()}"
            time.sleep(0.02)
        return found[0]

    def focused(self):
        """Role and name of what has the focus; None: nothing."""
        answer = self.command("Runtime.evaluate", expression="document.activeElement")
        node = self.command("Accessibility.getPartialAXTree", objectId=answer["result"]["objectId"], fetchRelatives=False)
        node = node["nodes"][0]
        return None if node["ignored"] else (node["role"]["value"], node["name"]["value"])

    # What is done to it

    def press(self, key, times=1, shift=False):
        for _ in range(times):
            known = {"key": key, "modifiers": 8 if shift else 0} | KEYS[key]
            self.command("Input.dispatchKeyEvent", type="keyDown", **known)
            self.command("Input.dispatchKeyEvent", type="keyUp", **known | {"text": ""})

    def type(self, text):
        self.command("Input.insertText", text=text)


class Node:
    """An element, as assistive technology sees it."""

    def __init__(self, page, node):
        self._page = page
        self._id = node["backendDOMNodeId"]
        self.name = node["name"]["value"]
        self.properties = {p["name"]: p["value"].get("value") for p in node.get("properties", [])}
        self.description = node.get("description", {}).get("value", "")

    def call(self, function):
        """What a function of the element, `function () { … this … }`, gives."""
        object_id = self._page.command("DOM.resolveNode", backendNodeId=self._id)["object"]["objectId"]
        answer = self._page.command(
            "Runtime.callFunctionOn", objectId=object_id, functionDeclaration=function, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def click(self):
        self._page.command("DOM.scrollIntoViewIfNeeded", backendNodeId=self._id)
        box = self._page.command("DOM.getContentQuads", backendNodeId=self._id)["quads"][0]
        at = {"x": (box[0] + box[4]) / 2, "y": (box[1] + box[5]) / 2, "button": "left", "clickCount": 1}
        self._page.command("Input.dispatchMouseEvent", type="mousePressed", **at)
        self._page.command("Input.dispatchMouseEvent", type="mouseReleased", **at)

    def fill(self, text):
        """Types in place of what is there."""
        self._page.command("DOM.focus", backendNodeId=self._id)
        self.call("function () { this.select(); }")
        self._page.type(text)

    def choose_file(self, path):
        self._page.command("DOM.setFileInputFiles", backendNodeId=self._id, files=[str(path)])
