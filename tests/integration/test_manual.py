"""What the manual pages say, beside what the programs do."""

import re

import pytest

from processes import ROOT

PAGES = {
    "llm-router": ["llm-router.8", "llm-router-telemetry.7"],
    "llm-router-admin": ["llm-router.8", "llm-router-admin.8", "llm-router-telemetry.7"],
}
FOLDERS = {"llm-router": ["core", "adapters", "fcgi"], "llm-router-admin": ["admin"]}


def logged_events(folders):
    """The events that C files name where they write a line of the log, and the file of each."""
    sources = [path for folder in folders for path in (ROOT / folder).rglob("*.c")]
    call = re.compile(r'\blog_(?:line|begin)\([^";]*"([a-z_]+)"')
    return {event: str(path.relative_to(ROOT)) for path in sources for event in call.findall(path.read_text())}


def described_events(pages):
    texts = [(ROOT / "man" / page).read_text() for page in pages]
    items = [item for text in texts for item in re.findall(r"^\.It Cm (.*)$", text, re.M)]
    return {event for item in items for event in re.findall(r"[a-z_]+", item)}


@pytest.mark.parametrize("program, at_least", [("llm-router", 50), ("llm-router-admin", 5)])
def test_every_event_of_the_log_is_described(program, at_least):
    logged = logged_events(FOLDERS[program])
    assert len(logged) >= at_least
    described = described_events(PAGES[program])
    assert {event: file for event, file in logged.items() if event not in described} == {}
