"""What may stand in front of llm-router, and what each of them cannot do."""

import fnmatch
import functools
import os
from pathlib import Path

import pytest

from cgi_program import CgiCall
from fastcgi import FastCgiCall, meta_variables
from gateway import Gateway
from processes import BROKEN, program, wait_until
from web_servers import CHOSEN, IN_FRONT, WEB_SERVERS, Lighttpd, LighttpdOfCgi


class BareGateway(Gateway):
    """Without a web server."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, web_server=Lighttpd, **options)  # which is never started

    def start(self):
        self.start_router()
        wait_until(self._answers, "the bare socket answers")

    def _answers(self):
        assert self.router.is_running(), f"llm-router ended: {self.router.log_text()}"
        try:
            return self.get("/readyz", key=None).status == 200
        except OSError:
            return False

    def _send(self, method, path, headers, payload, **_):
        call = FastCgiCall(self.socket, meta_variables(method, path, headers, len(payload)))
        try:
            call.send_body(payload)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it has answered without it
        return call


class CgiGateway(Gateway):
    """Beside a running instance, whose configuration it takes."""

    def __init__(self, *arguments, web_server=Lighttpd, **options):  # which is not started
        super().__init__(*arguments, web_server=web_server, **options)

    @property
    def log(self):
        return self.folder / "cgi.log"

    def start(self):
        self.start_router()
        wait_until(lambda: self.get("/readyz", key=None).status == 200, "the instance is ready")

    def _send(self, method, path, headers, payload, arguments=(), environment=None, **_):
        params = meta_variables(method, path, headers, len(payload)) | (environment or {})
        return CgiCall(params, payload, self.environment(), self.log, arguments)

    def assert_unbroken(self):
        if self.router is not None:
            super().assert_unbroken()
        text = self.log.read_text()
        assert not [word for word in BROKEN if word in text], text


class LoneCgiGateway(CgiGateway):
    """No instance runs: each process reads the state directory for itself."""

    def start(self):
        pass

    def reload(self):
        pass


class LighttpdCgiGateway(LoneCgiGateway):
    """As a CGI program of lighttpd's, with the configuration that is shipped."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, web_server=LighttpdOfCgi, **options)

    def start(self):
        self.web_server = self.front.start(self.environment() | {"LLM_ROUTER_PROGRAM": program("llm-router")})
        wait_until(self._answers, "/llm-router/livez answers")

    def _answers(self):
        assert self.web_server.is_running(), f"lighttpd ended: {self.web_server.log_text()}"
        try:
            return self.get("/livez", key=None).status == 200
        except OSError:
            return False

    def _send(self, method, path, headers, payload, **options):
        return Gateway._send(self, method, f"/llm-router{path}", headers, payload, **options)

    @property
    def log(self):
        return self.web_server.log  # where CGI programs of lighttpd's write, unless it has a log file


def behind(name):
    return functools.partial(Gateway, web_server=IN_FRONT[name])


class FrontEnd:
    """cannot: the tests that fail behind it, with their file where another has one of that name, and why; "*" as in
    file names. One that passes all the same fails: what a front end has learnt is to be taken from here."""

    def __init__(self, gateway, cannot=None):
        self.gateway = gateway
        self.cannot = cannot or {}


HALF_CLOSED = "test_a_departed_caller_closes_the_upstream[mid-stream, while events come-half_close]"
OF_A_KILLED_WORKER = (
    "test_a_stream_of_a_killed_worker_does_not_look_whole",
    "test_a_killed_worker_is_replaced_and_its_request_recorded",
    "test_a_request_past_its_limit_is_ended_with_its_worker_and_told_of[streamed]",
)
OF_A_BROKEN_REPLY = (
    "test_a_plain_answer_that_was_cut_does_not_look_whole",
    "test_audio_that_broke_off_does_not_look_whole*",
    "test_audio_that_breaks_off_looks_broken_and_is_not_asked_again*",
    "test_the_openai_client_fails_on_audio_that_broke_off*",
    "test_speech_that_broke_off_is_an_error*",
    "test_a_large_reply_that_breaks_off_is_a_broken_transfer",
    "test_a_silent_piece_after_audio_is_a_broken_transfer",
    "test_a_piece_that_fails_after_audio_is_a_broken_transfer",
    "test_a_cut_beyond_the_bound_aborts_the_reply",
    "test_a_slot_comes_back_however_its_request_ends[end_cut]",
)
OF_A_PLACE = (
    "test_of_100_parallel_requests_exactly_10_are_in_hand_on_a_limit_of_10",
    "test_a_killed_worker_frees_its_place_and_only_that",
    "test_a_slow_reader_holds_back_its_upstream_and_is_left_after_a_deadline",
)
CUT_OVER_HTTP2 = "test_a_reply_that_was_cut_is_an_error_of_curls"
CANCELLED_STREAM = "test_who_cancels_one_stream_of_a_connection_closes_its_upstream"
SAYS_NOTHING = "it finds out by writing, and the client's connection, which we can look at, is still there"
SERVES_ON = "who has closed its own side may still read, and is written to"
NO_RETRY = "2.6 asks no other instance, but for GET: the FastCGI transport does not say that it had no connection"
NO_END = "the reply's end is all it looks at: what the program's exit status says, it does not tell"
OF_A_CLOSED_SOCKET = (
    "test_nobody_waits_for_the_last_stream_of_who_has_ended*",
    "test_nobody_is_let_in_behind_a_master_that_was_killed_with_its_overflow_process",
)
SECOND_MASTER = "test_a_second_master_on_one_folder_is_refused[run_dir*"
LEFT_TO_THE_NEXT = "who waits at a socket of another's is left to the next that serves there, as llm-router(8) says"
CADDY_ENDS_WELL = "2.6 logs that the reply broke off, and ends it as if it had not (finalizeResponse)"

OF_LIGHTTPD = {CUT_OVER_HTTP2: "over HTTP/2, 1.4.69 ends a reply that broke off as if it had not"}

FRONT_ENDS = {
    "lighttpd": FrontEnd(behind("lighttpd"), OF_LIGHTTPD),
    "nginx": FrontEnd(
        behind("nginx"),
        dict.fromkeys(OF_A_KILLED_WORKER, "a connection that ends is the reply's end"),
    ),
    "Apache": FrontEnd(
        behind("Apache"),
        {
            "test_an_upload_that_is_slow_holds_no_worker": "mod_proxy_fcgi connects when it has the head",
            HALF_CLOSED: SERVES_ON,
            CANCELLED_STREAM: SAYS_NOTHING,
            CUT_OVER_HTTP2: "over HTTP/2, 2.4 leaves the stream of a reply that broke off as it is",
        },
    ),
    "Caddy": FrontEnd(
        behind("Caddy"),
        dict.fromkeys((*OF_A_KILLED_WORKER, *OF_A_BROKEN_REPLY), CADDY_ENDS_WELL)
        | {
            HALF_CLOSED: SERVES_ON,
            CANCELLED_STREAM: SAYS_NOTHING,
            CUT_OVER_HTTP2: CADDY_ENDS_WELL,
            "test_a_request_whose_length_is_not_announced_is_passed_on_whole": "2.6 does not say the length of what it has buffered",
            "test_of_several_instances_one_that_is_dead_costs_nobody_a_request": NO_RETRY,
            "test_a_path_arrives_without_dots*": "paths are passed on as they are",
        },
    ),
    "spawn-fcgi": FrontEnd(
        behind("spawn-fcgi"),
        OF_LIGHTTPD
        | dict.fromkeys(OF_A_CLOSED_SOCKET, LEFT_TO_THE_NEXT)
        | {
            "test_events_of_workers_that_outlive_a_killed_master*": "it refuses a socket that the old workers have open",
            SECOND_MASTER: "it refuses the socket, before there is a second one",
        },
    ),
    "systemd": FrontEnd(
        behind("systemd"),
        OF_LIGHTTPD
        | dict.fromkeys(OF_A_CLOSED_SOCKET, LEFT_TO_THE_NEXT)
        | {
            SECOND_MASTER: "of two of its sockets with one name, the second takes the callers of the first",
        },
    ),
    "bin-path": FrontEnd(behind("bin-path"), OF_LIGHTTPD),
    "no web server": FrontEnd(BareGateway),
    "CGI beside an instance": FrontEnd(CgiGateway),
    "CGI alone": FrontEnd(LoneCgiGateway),
    "CGI": FrontEnd(
        behind("CGI"),
        dict.fromkeys(OF_A_BROKEN_REPLY, NO_END)
        | {
            "test_edge.py::test_a_body_over_the_limit_is_refused[*": "the limit is a flag, and a CGI program has none",
            "test_what_one_worker_learns_all_know": "they know, but none of them has a number",
            "test_probes_and_pages_are_answered_while_all_workers_are_busy": "no worker is busy with it",
        }
        | dict.fromkeys(OF_A_PLACE, "what a CGI program has in hand is in no scoreboard"),
    ),
    "CGI of lighttpd": FrontEnd(
        LighttpdCgiGateway,
        dict.fromkeys(OF_A_BROKEN_REPLY, NO_END),
    ),
}

OPENED_BY_ANOTHER = ("spawn-fcgi", "systemd")  # is their socket

# The files whose results can depend on the web server: each of their tests that uses `gateway` runs behind each.
BEHIND_EACH = {"test_departures.py", "test_endings.py", "test_openai_sdk.py", "test_web_servers.py", "test_web_servers_tls.py"}

# The files about what a caller gets, which is the same from a CGI program; the others are about what processes do,
# about settings of theirs, and about slots (maxConcurrency), which such a program has only where there is a Redis.
ALSO_FOR_CGI = {
    f"test_{name}.py"
    for name in (
        "callers config deadlines departures edge endings faithful fallback front_ends heartbeats hedging holdback hostile_heads limits "
        "openai_node openai_sdk plain record remote_user signatures speech speech_providers stream_options tls transcriptions "
        "usage verdicts voice_pack_speech voices web_servers"
    ).split()
}

# Lighttpd alone starts llm-router there, under no filter and no supervisor, and ends it and starts it again. These start or
# end it themselves, or look at how it does that: at what it refuses then, and says.
NOT_FOR_BIN_PATH = (
    "test_admin_rotation.py::test_rotation_moves_every_key_while_requests_go_on*",
    "test_clock.py::test_who_dies_is_replaced_and_the_program_ends_in_time*",
    "test_hedging.py::test_both_go_on_while_the_program_ends",
    "test_metrics_access.py::test_what_is_wrong_is_said_at_the_start*",
    "test_otlp.py::test_a_process_that_is_told_to_end_delivers_what_there_is",
    "test_otlp.py::test_a_receiver_that_does_not_answer_delays_the_end_by_no_more_than_the_last_chance",
    "test_otlp.py::test_a_restart_goes_on_where_the_last_process_was",
    "test_otlp.py::test_segments_that_are_delivered_are_removed",
    "test_otlp_requests.py::test_a_request_by_cgi_is_told_and_counted_as_any_other",
    "test_outliving.py::test_events_of_workers_that_outlive_a_killed_master_reach_the_receiver*",
    "test_plane.py::test_a_redis_whose_certificate_is_not_trusted_is_none",
    "test_plane.py::test_an_instance_that_starts_without_postgres_heals",
    "test_pool.py::test_a_pool_that_cannot_be_is_refused*",
    "test_process.py::test_a_flag_that_means_nothing_is_refused_at_start*",
    "test_process.py::test_a_request_ended_by_the_drain_timeout_is_recorded",
    "test_process.py::test_a_restart_serves_on_the_same_socket",
    "test_process.py::test_a_second_master_on_one_folder_is_refused*",
    "test_process.py::test_nobody_*",
    "test_process.py::test_sig*",
    "test_resolver.py::test_a_stuck_lookup_does_not_hold_up_the_end_of_the_program",
    "test_scarcity.py::test_a_program_that_starts_without_processes_serves_when_there_are",
    "test_spool.py::test_a_restart_continues_the_newest_segment_and_the_oldest_go",
    "test_spool.py::test_where_no_spool_can_be_requests_are_served",
    "test_systemd.py::test_a_supervisor_is_told_when_it_serves_reloads_and_stops",
    "test_systemd.py::test_an_upgrade_works_under_the_filter",
    "test_systemd.py::test_it_is_not_ready_before_a_worker_serves",
    "test_top.py::test_an_instance_that_stops_is_noticed_and_the_next_one_followed",
    "test_upgrade.py::test_after_an_upgrade_a_killed_master_leaves_requests_to_their_workers",
    "test_upgrade.py::test_keys_that_came_by_the_environment_are_handed_on_and_shown_to_nobody",
    "test_upgrade.py::test_sigterm_during_an_upgrade_drains",
    "test_voice_pack_speech.py::test_a_rotation_of_the_master_key_changes_no_tag",
)

FIXTURES = ("session_gateway", "module_gateway", "front_end")  # whose parameter is the front end


def parametrize(metafunc):
    """For pytest_generate_tests."""
    name = Path(metafunc.module.__file__).name
    if "session_gateway" in metafunc.fixturenames and name in BEHIND_EACH and "FRONT_END" not in os.environ:
        only = metafunc.definition.get_closest_marker("behind")
        metafunc.parametrize("session_gateway", only.args if only else tuple(WEB_SERVERS), indirect=True, scope="session")


def front_end_of(item):
    """The name of what stands in front of the test's gateways."""
    for fixture in FIXTURES if hasattr(item, "callspec") else ():
        if fixture in item.callspec.params:
            return item.callspec.params[fixture]
    return CHOSEN


def is_about_another(item):
    """For pytest_collection_modifyitems: where FRONT_END names one, what is about others is left out,
    and what goes through none. A gateway is started with base_urls."""
    if "FRONT_END" not in os.environ:
        return False
    only = item.get_closest_marker("behind")
    is_its_own = front_end_of(item) == CHOSEN and (only is None or CHOSEN in only.args)
    is_about_instances = "plane" in item.fixturenames  # several, whose own workers are asked
    is_about_callers = CHOSEN != "CGI" or (item.path.name in ALSO_FOR_CGI and not is_about_instances)
    is_started_otherwise = CHOSEN == "bin-path" and any(is_named(item, pattern) for pattern in NOT_FOR_BIN_PATH)
    return not is_its_own or not is_about_callers or is_started_otherwise or "base_urls" not in item.fixturenames


def is_named(item, pattern):
    """Whether a pattern is about this test, whatever stands in front."""
    front_end = front_end_of(item)
    name = item.name.replace(f"[{front_end}]", "").replace(f"[{front_end}-", "[").replace(f"-{front_end}", "")
    whole = name if "::" not in pattern else f"{item.path.name}::{name}"
    return fnmatch.fnmatchcase(whole, pattern.replace("[", "[[]"))


def expect_failures(item):
    """For pytest_collection_modifyitems."""
    front_end = front_end_of(item)
    for pattern, reason in FRONT_ENDS[front_end].cannot.items():
        if is_named(item, pattern):
            item.add_marker(pytest.mark.xfail(reason=f"{front_end}: {reason}", strict=True))
