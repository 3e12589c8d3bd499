"""Bodies of chat completions: requests, replies, chunks of streams."""

import json

DONE = "data: [DONE]\n\n"


def request(model, stream=False, **members):
    body = {"model": model, "messages": [{"role": "user", "content": "Say hello."}]}
    if stream:
        body["stream"] = True
    return body | members


def completion(text="Hello!", **members):
    return json.dumps(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1760000000,
            "model": "real-model",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
        }
        | members
    )


def event(payload):
    return f"data: {payload if isinstance(payload, str) else json.dumps(payload)}\n\n"


def chunk(delta=None, finish_reason=None, **members):
    """One chunk as an event."""
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish_reason}
    return event(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1760000000,
            "model": "real-model",
            "choices": [choice],
        }
        | members
    )


def usage_event(choices=(), **usage):
    usage = usage or {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    return chunk(choices=list(choices), usage=usage)


ROLE = chunk({"role": "assistant", "content": ""})
HELLO = chunk({"content": "Hello"})
WORLD = chunk({"content": " world"})
FINISH = chunk({}, "stop")
GOOD_STREAM = (ROLE, HELLO, WORLD, FINISH, DONE)


def error(message="It failed.", type="server_error", code=None):
    return {"error": {"message": message, "type": type, "param": None, "code": code}}


def text_of(body):
    """The text that the chunks of a stream add up to."""
    text = ""
    for payload in payloads(body):
        if payload != "[DONE]":
            for choice in json.loads(payload).get("choices") or []:
                text += choice.get("delta", {}).get("content") or ""
    return text


def payloads(body):
    """The data of each event of a stream."""
    found = []
    for block in body.decode().replace("\r\n", "\n").split("\n\n"):
        lines = [line[5:].removeprefix(" ") for line in block.split("\n") if line.startswith("data:")]
        if lines:
            found.append("\n".join(lines))
    return found
