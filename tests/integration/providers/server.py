"""The server that all imitations share: HTTP/1.1, a thread per connection.

An imitation is a function of a Request that returns a Reply. It lives below
/NAME/ANY, so that one provider may be several upstreams. Every key that looks like
a test's is good, unless a test says what is wrong with it.
"""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from providers import azure, dashscope, openai_speech, volcengine
from providers.exchange import Request


GATE_SECONDS = 10


class Providers:
    IMITATIONS = {
        "azure": azure.answer,
        "dashscope": dashscope.answer,
        "volcengine": volcengine.answer,
        "openai": openai_speech.answer,
    }
    # What stands in a tree's baseURL behind the upstream's name.
    PATHS = {
        "azure": ("azure", "/cognitiveservices/v1"),
        "dashscope-synthesizer": ("dashscope", "/api/v1/services/audio/tts/SpeechSynthesizer"),
        "dashscope-generation": ("dashscope", "/api/v1/services/aigc/multimodal-generation/generation"),
        "volcengine-v1": ("volcengine", "/api/v1/tts"),
        "volcengine-v3": ("volcengine", "/api/v3/tts/unidirectional"),
        "volcengine-sse": ("volcengine", "/api/v3/tts/unidirectional/sse"),
        "openai": ("openai", "/v1/audio/speech"),
    }

    def __init__(self):
        self.reset()
        self.clips = {}  # finished files, by their path
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _make_handler(self))
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def reset(self):
        """Forgets what was asked and what is wrong."""
        self.requests = []
        self.troubles = {}
        self.seen_ids = set()
        self.gate = None  # an Event that the second piece of audio waits for
        self.was_gate_shut = False  # nobody opened it in time

    def stop(self):
        self._server.shutdown()
        self._server.server_close()

    def base_urls(self):
        """For the fixture of that name: where each kind of upstream is."""
        return {f"like-{kind}": self._base_url(*place) for kind, place in self.PATHS.items()}

    def _base_url(self, imitation, path):
        return lambda name: f"http://127.0.0.1:{self.port}/{imitation}/{name}{path}"

    def answer(self, handler):
        length = int(handler.headers.get("content-length", "0"))
        body = handler.rfile.read(length)
        _, imitation, _, path = handler.path.split("/", 3)
        request = Request(handler, self, "/" + path, body)
        self.requests.append(request)
        return self.IMITATIONS[imitation](request)

    def pieces(self, audio, size=4096):
        """Audio as a provider sends it, the first piece at once."""
        for at in range(0, len(audio), size):
            if at == size and self.gate is not None:
                self.was_gate_shut = not self.gate.wait(GATE_SECONDS)
            yield audio[at : at + size]


def _make_handler(providers):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 64 * 1024

        def log_message(self, *_):
            pass

        def do_POST(self):
            reply = providers.answer(self)
            self.send_response(reply.status, reply.reason)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            if isinstance(reply.body, bytes):
                self.send_header("content-length", str(len(reply.body)))
                self.end_headers()
                self.wfile.write(reply.body)
                return
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for piece in reply.body:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")

        do_GET = do_POST

    return Handler
