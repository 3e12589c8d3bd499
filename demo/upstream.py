#!/usr/bin/env python3
"""The demonstration's upstream: an OpenAI-compatible provider that knows one text.

    upstream.py PORT_FILE

Listens on the loopback address, on the port that PORT_FILE names, or on a free
one that it writes there. One key lives, every other is refused as OpenAI refuses
a revoked one.
"""

import http.server
import json
import sys
import time
from pathlib import Path

LIVING_KEY = "sk-demo-living"
SECONDS_PER_WORD = 0.06
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
        if self.path != "/v1/chat/completions":
            return self.answer(404, {"error": {"message": "There is nothing here.", "type": "invalid_request_error"}})
        request = json.loads(body)
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
            self.send_event(json.dumps(chunk))

        def choice(delta, finish_reason=None):
            return [{"index": 0, "delta": delta, "finish_reason": finish_reason}]

        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            send(choice({"role": "assistant", "content": ""}))
            for word in WORDS:
                send(choice({"content": word}))
                time.sleep(SECONDS_PER_WORD)
            send(choice({}, "stop"))
            if usage is not None:
                send([], usage=usage)
            self.send_event("[DONE]")
            self.wfile.write(b"0\r\n\r\n")
        except ConnectionError:
            self.close_connection = True  # the caller left, and the gateway with it

    def send_event(self, data):
        event = f"data: {data}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))

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
