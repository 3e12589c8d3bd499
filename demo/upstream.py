#!/usr/bin/env python3
"""The demonstration's upstream: an OpenAI-compatible provider that knows one text,
and reads any.

    upstream.py PORT_FILE

Listens on the loopback address, on the port that PORT_FILE names, or on a free
one that it writes there. One key lives, every other is refused as OpenAI refuses
a revoked one.
"""

import contextlib
import http.server
import json
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True  # the repository is not ours to write to

import voice  # noqa: E402

LIVING_KEY = "sk-demo-living"
SECONDS_PER_WORD = 0.06
SECONDS_PER_PIECE = 0.005  # of sound: faster than it is heard, and slow enough to see it come
TEXT = (
    "Hello! This text comes from a small upstream on your own machine. It reached you through "
    "llm-router, which picked a model, a key and an address for it, and would have tried the next "
    "ones had the first failed. Ask for the model demo-fallback, and it does: the first key of that "
    "model has been revoked, and you will not notice."
)
WORDS = [word + " " for word in TEXT.split(" ")]

REFUSAL = {
    "error": {
        "message": "Incorrect API key provided: sk-demo-****oked. You can find your API key at "
        "https://platform.openai.com/account/api-keys.",
        "type": "invalid_request_error",
        "param": None,
        "code": "invalid_api_key",
    }
}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # each word is a packet

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        if self.headers.get("Authorization") != f"Bearer {LIVING_KEY}":
            return self.answer(401, REFUSAL)
        request = json.loads(body)
        if self.path == "/v1/audio/speech":
            return self.speak(request)
        if self.path == "/v1/chat/completions":
            return self.complete(request)
        return self.refuse(404, "There is nothing here.")

    def complete(self, request):
        common = {"id": f"chatcmpl-{time.time_ns():x}", "created": int(time.time()), "model": request["model"]}
        prompt_words = sum(len(str(message.get("content")).split()) for message in request.get("messages", []))
        usage = {
            "prompt_tokens": prompt_words,
            "completion_tokens": len(WORDS),
            "total_tokens": prompt_words + len(WORDS),
        }
        if request.get("stream"):
            options = request.get("stream_options") or {}
            return self.stream(common, usage if options.get("include_usage") else None)
        message = {"role": "assistant", "content": TEXT}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return self.answer(200, common | {"object": "chat.completion", "choices": [choice], "usage": usage})

    def speak(self, request):
        who = request.get("voice")
        try:
            content_type, sound = voice.speak(
                request.get("input"),
                who.get("id") if isinstance(who, dict) else who,
                request.get("response_format") or "mp3",
                1 if request.get("speed") is None else request["speed"],
            )
        except voice.Refusal as refusal:
            return self.refuse(400, str(refusal), refusal.param)
        with contextlib.closing(sound), self.chunks(content_type):
            for piece in filter(None, sound):
                self.send_chunk(piece)
                time.sleep(SECONDS_PER_PIECE)

    def refuse(self, status, message, param=None):
        error = {"message": message, "type": "invalid_request_error", "param": param, "code": None}
        self.answer(status, {"error": error})

    def answer(self, status, document):
        payload = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def stream(self, common, usage):
        def send(choices, **members):
            chunk = common | {"object": "chat.completion.chunk", "choices": choices} | members
            self.send_chunk(f"data: {json.dumps(chunk)}\n\n".encode())

        def choice(delta, finish_reason=None):
            return [{"index": 0, "delta": delta, "finish_reason": finish_reason}]

        with self.chunks("text/event-stream"):
            send(choice({"role": "assistant", "content": ""}))
            for word in WORDS:
                send(choice({"content": word}))
                time.sleep(SECONDS_PER_WORD)
            send(choice({}, "stop"))
            if usage is not None:
                send([], usage=usage)
            self.send_chunk(b"data: [DONE]\n\n")

    @contextlib.contextmanager
    def chunks(self, content_type):
        """A reply in chunks. One that broke off lacks its last chunk, by which the gateway knows."""
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            yield
            self.wfile.write(b"0\r\n\r\n")
        except ConnectionError:
            self.close_connection = True  # the caller left, and the gateway with it

    def send_chunk(self, piece):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))

    def log_message(self, format, *args):
        """Says nothing: the terminal is llm-router's."""


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def main():
    port_file = Path(sys.argv[1])
    port = int(port_file.read_text()) if port_file.exists() else 0
    try:
        server = Server(("127.0.0.1", port), Handler)
    except OSError as error:
        sys.exit(f"upstream.py: cannot listen on port {port}, which {port_file} names: {error.strerror}")
    fresh = port_file.with_suffix(".fresh")
    fresh.write_text(f"{server.server_port}\n")
    fresh.replace(port_file)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
