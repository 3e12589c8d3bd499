"""Fixtures. A module that uses `gateway` has its routing tree in TREE."""

import fcntl
import functools
import shutil
import subprocess
import threading

import pytest

from administrator import Admin, Deployment
import front_ends
from authority import Authority
from binding import Site
from browser import Browser
from otlp import Receiver
from postgres import Postgres
from processes import BUILD, ROOT
from providers import Providers
from upstream import MutePort, RefusedPort, SilentPort, Upstream


LONGEST = "test_chaos.py"


def pytest_collection_modifyitems(config, items):
    """Who takes longest begins first: at the end, the others would have nothing left to do beside it."""
    config.hook.pytest_deselected(items=[item for item in items if front_ends.is_about_another(item)])
    items[:] = [item for item in items if not front_ends.is_about_another(item)]
    items.sort(key=lambda item: item.path.name != LONGEST)
    for item in items:
        front_ends.expect_failures(item)


def pytest_generate_tests(metafunc):
    front_ends.parametrize(metafunc)


def pytest_terminal_summary(terminalreporter):
    """What tests measured (record_property), also in another process."""
    for report in terminalreporter.stats.get("passed", []):
        for name, value in report.user_properties if report.when == "call" else []:
            terminalreporter.write_line(f"{name}: {value}")


@pytest.fixture(scope="session")
def upstream():
    upstream = Upstream()
    yield upstream
    upstream.stop()


@pytest.fixture(scope="session")
def authority(tmp_path_factory):
    """Whom the gateways of tests trust, if they are told to."""
    return Authority(tmp_path_factory.mktemp("authority"), "trusted")


@pytest.fixture(scope="session")
def session_providers():
    providers = Providers()
    yield providers
    providers.stop()


@pytest.fixture
def providers(session_providers):
    """The imitations of speech providers, without memories."""
    session_providers.reset()
    return session_providers


@pytest.fixture(scope="session")
def base_urls(upstream, authority, session_providers, tmp_path_factory):
    """Where each kind of upstream of a tree is."""
    refused, silent, mute = RefusedPort(), SilentPort(), MutePort()
    stranger = Authority(tmp_path_factory.mktemp("stranger"), "stranger")
    yield {
        "hostile": upstream.base_url,
        "refused": refused.base_url,
        "silent": silent.base_url,
        "mute": mute.base_url,
        "tls": upstream.listen_tls(authority.server()),
        "untrusted": upstream.listen_tls(stranger.server()),
        "expired": upstream.listen_tls(authority.server(days=-1)),
        "misnamed": upstream.listen_tls(authority.server("127.0.0.2")),
        **session_providers.base_urls(),
    }
    refused.stop()
    silent.stop()
    mute.stop()


@pytest.fixture(scope="session")
def postgres():
    """A private Postgres, for tests that leave it running."""
    postgres = Postgres()
    yield postgres
    postgres.stop()


@pytest.fixture(scope="session", params=["directory", "postgres"])
def session_admin(request, tmp_path_factory, base_urls, upstream):
    """llm-router-admin beside a gateway, on each of the stores."""
    postgres = request.getfixturevalue("postgres") if request.param == "postgres" else None
    gateway = Deployment(tmp_path_factory.mktemp("plane"), base_urls, upstream, postgres, workers=2)
    gateway.start()
    admin = Admin(gateway, ["--auth-failures-per-minute", "1000"], {"LLM_ROUTER_ADMIN_EMAILS": "ada@example.org"})
    try:
        admin.wait_for_socket()
        yield admin
    finally:
        admin.process.stop()
        gateway.stop()


@pytest.fixture
def admin(session_admin, upstream):
    """The same without any document, and an upstream without memories."""
    upstream.reset()
    session_admin.gateway.remove_entries()
    yield session_admin
    session_admin.assert_unbroken()
    session_admin.gateway.assert_unbroken()


def gateway_behind(front_end, *arguments, **options):
    return front_ends.FRONT_ENDS[front_end].gateway(*arguments, **options)


@pytest.fixture(scope="session")
def session_gateway(request, tmp_path_factory, base_urls, upstream, authority):
    """One gateway for all tests that do not end its processes."""
    flags = ["--max-body-bytes", "25000000", "--max-header-bytes", "32768", "--ca-file", str(authority.file)]
    front_end = getattr(request, "param", front_ends.CHOSEN)
    gateway = gateway_behind(front_end, tmp_path_factory.mktemp("gateway"), base_urls, upstream, flags=flags)
    gateway.start()
    yield gateway
    gateway.stop()
    gateway.assert_unbroken()


@pytest.fixture(scope="module")
def tree(request, session_gateway):
    session_gateway.use(request.module.TREE)


@pytest.fixture
def gateway(tree, session_gateway, upstream):
    """The gateway with the module's tree in force, and an upstream without memories."""
    upstream.reset()
    yield session_gateway
    session_gateway.assert_unbroken()
    unexpected = [f"{record.path} {record.key[:14]}" for record in upstream.unexpected]
    assert not unexpected, f"the upstream was asked with keys that this test gave no script: {unexpected}"


@pytest.fixture
def start_gateway(tmp_path, base_urls, upstream):
    """Starts gateways of the test's own, with flags, and stops them."""
    upstream.reset()
    started = []

    def start(tree=None, kind=None, front_end=front_ends.CHOSEN, **options):
        folder = tmp_path / f"g{len(started)}"
        folder.mkdir()
        begin = kind if kind is not None else functools.partial(gateway_behind, front_end)
        gateway = begin(folder, base_urls, upstream, **options)
        started.append(gateway)
        gateway.start()
        if tree is not None:
            gateway.use(tree)
        return gateway

    yield start
    for gateway in started:
        gateway.stop()


@pytest.fixture
def is_over():
    """Ends what scripts hold open until it is set; also when the test fails."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture(scope="session")
def node_folder():
    """A folder with the programs of node/ and their libraries, as package-lock.json says."""
    source, folder = ROOT / "tests" / "integration" / "node", BUILD / "node"
    lock = (source / "package-lock.json").read_bytes()
    installed = folder / "package-lock.installed"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "making").open("w") as making:
        fcntl.flock(making, fcntl.LOCK_EX)  # other processes of pytest want it too
        for name in ("package.json", "package-lock.json", "ask.mjs"):
            shutil.copy(source / name, folder / name)
        if not installed.exists() or installed.read_bytes() != lock:
            subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--silent"], cwd=folder, check=True, timeout=300)
            installed.write_bytes(lock)
    return folder


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.stop()


@pytest.fixture(scope="session")
def session_site(tmp_path_factory, base_urls, upstream):
    site = Site(tmp_path_factory.mktemp("site"), base_urls, upstream)
    yield site
    site.stop()


@pytest.fixture
def site(session_site, upstream):
    """Where the binding page is, with an upstream without memories."""
    upstream.reset()
    yield session_site
    session_site.assert_unbroken()


@pytest.fixture
def page(site, browser):
    """The binding page, at which the browser has nothing to complain of."""
    page = browser.open(site.url)
    yield page
    assert not page.complaints()
    page.close()


@pytest.fixture
def receiver():
    receiver = Receiver()
    yield receiver
    receiver.stop()


@pytest.fixture
def start_exporting(start_gateway, receiver):
    """Starts gateways that export to the receiver, with these variables besides."""

    def start(tree=None, workers=2, **variables):
        environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "OTEL_BSP_SCHEDULE_DELAY": "100"} | variables
        if "OTEL_METRIC_EXPORT_INTERVAL" not in variables:
            environment["OTEL_METRICS_EXPORTER"] = "none"  # what is scripted is for traces
        return start_gateway(tree, workers=workers, router_environment=environment)

    return start


@pytest.fixture
def front_end(session_gateway, request):
    """The name of what stands in front of `gateway`, for a gateway of the test's own."""
    return front_ends.front_end_of(request.node)
