"""The upstream that is faster than what is in front of it (upstream.c)."""

from processes import BUILD, Process, wait_until


def start_upstream(folder, chunks, interval_us):
    """(its process, its port); it logs into the folder."""
    port_file = folder / "upstream.port"
    command = [BUILD / "bench" / "upstream", port_file, str(chunks), str(interval_us)]
    process = Process(command, {}, folder / "upstream.log")
    wait_until(port_file.exists, "the upstream listens")
    return process, int(port_file.read_text())
