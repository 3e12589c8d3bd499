"""wrk, and what it says of the requests that request.lua makes."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

SCRIPT = Path(__file__).with_name("request.lua")
EVERY_S = 0.02  # from one interrupt to the next


def run_wrk(url, connections, seconds, variables, *options):
    """Its result: requests, seconds, failed, p50_us, p99_us. variables: request.lua's.

    It can be told whole seconds only, but ends at an interrupt as well as by itself: one that comes before it is ready
    for it is ignored."""
    command = ["env", "--ignore-signal=INT", "wrk", "-t", "1", "-c", str(connections), "-d", "1h", "-s", SCRIPT]
    wrk = subprocess.Popen(
        [*command, *options, url], env=os.environ | variables, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        time.sleep(seconds)
        while wrk.poll() is None:
            wrk.send_signal(signal.SIGINT)
            time.sleep(EVERY_S)
        said = wrk.stderr.read()
    finally:
        wrk.kill()
        wrk.wait()
        wrk.stderr.close()
    assert wrk.returncode == 0, said
    return json.loads(said.splitlines()[-1])
