# SPDX-License-Identifier: Apache-2.0
"""Servers for the end-to-end tests.

`real` is the release build with the small models, one for a module; `sim` is the build under ASan
and UBSan with simulated models, one for a module; `start` makes servers for a single test. A server
must end with status 0 on SIGTERM and its log must be free of sanitizer reports, leaks included: a
fixture that stops one fails otherwise, with the log.
"""
import os
import pathlib
import re
import signal
import socket
import subprocess
import time

import pytest
import requests

from authority import Authority

ROOT = pathlib.Path(__file__).resolve().parents[2]
START_LIMIT_S = float(os.environ.get("THEMIS_START_LIMIT_S", 90))
STOP_LIMIT_S = 60
SANITIZER = re.compile(r"ERROR: (Address|Leak)Sanitizer|runtime error:|SUMMARY: \w*Sanitizer")
SIM_MODELS = {"chat": "sim:chat", "embed": "sim:embed,dim=384"}

for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY",
             "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR"):
    os.environ.pop(name, None)
os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1,localhost"


def program(variable, default):
    path = pathlib.Path(os.environ.get(variable) or ROOT / default)
    assert os.access(path, os.X_OK), f"{path} was not built (or set {variable})"
    return path


def model_file(pattern):
    folder = pathlib.Path(os.environ.get("THEMIS_MODELS") or ROOT / "build/models")
    found = sorted(folder.glob(pattern))
    assert found, f"no {pattern} in {folder}: tools/deps.sh test fetches the models"
    return found[0]


def real_models():
    return {"chat": model_file("SmolLM2-135M-Instruct*.gguf"), "embed": model_file("*MiniLM*.gguf")}


def release_server():
    return program("THEMISD", "build/themisd")


def asan_server():
    return program("THEMISD_ASAN", "build/dev/src/themisd")


class Server:
    """A running themisd. With a certificate (see authority.py) it speaks TLS."""

    def __init__(self, binary, data, models, *, listen="127.0.0.1:0", settings=(), env=None,
                 flags=(), certificate=None, prefix=(), auth=None):
        self.ca = certificate.ca if certificate else None
        host = listen.rsplit(":", 1)[0]
        self.host, self.auth = "127.0.0.1" if host == "0.0.0.0" else host, auth
        self.data = pathlib.Path(data)
        self.log_path = self.data.with_name(self.data.name + f".{time.monotonic_ns()}.log")
        command = [*prefix, binary, "--data", self.data, "--listen", listen]
        for name, file in models.items():
            command += ["--model", f"{name}={file}"]
        for setting in [*settings, *(certificate.settings if certificate else ())]:
            command += ["--set", setting]
        command += flags
        environment = {**os.environ, **(env or {})}
        environment["ASAN_OPTIONS"] = "detect_leaks=1:abort_on_error=1:detect_stack_use_after_return=1"
        environment["UBSAN_OPTIONS"] = "print_stacktrace=1:halt_on_error=1"
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=subprocess.STDOUT, env=environment)
        self.port = None

    def log(self):
        return self.log_path.read_text(errors="replace")

    def fail(self, what):
        pytest.fail(f"{what}\n---- log of the server ----\n{self.log()[-20000:]}", pytrace=False)

    def wait_ready(self):
        """Until /health answers. The port is in the log, since the system chose it."""
        end = time.monotonic() + START_LIMIT_S
        while time.monotonic() < end:
            if self.process.poll() is not None:
                self.fail(f"themisd ended while it started, status {self.process.returncode}")
            found = re.search(r"listens on https?://[^ ]+:(\d+)", self.log())
            if found:
                self.port = int(found.group(1))
                answer = self.request("GET", "/health", timeout=30)
                assert answer.status_code == 200, answer.text
                assert answer.json()["status"] == "ok"
                return self
            time.sleep(0.02)
        self.kill()
        self.fail("themisd did not become ready")

    @property
    def url(self):
        return f"{'https' if self.ca else 'http'}://{self.host}:{self.port}"

    def is_alive(self):
        return self.process.poll() is None

    def request(self, method, path, **options):
        options.setdefault("timeout", 60)
        options.setdefault("auth", self.auth)
        options.setdefault("verify", str(self.ca) if self.ca else True)
        return requests.request(method, self.url + path, **options)

    def aql(self, text, status=201, **body):
        answer = self.request("POST", "/_api/cursor", json={"query": text, **body})
        assert answer.status_code == status, answer.text
        return answer.json()

    def rows(self, text, **bind):
        """All of them, in one batch."""
        answer = self.aql(text, bindVars=bind, batchSize=1_000_000)
        assert not answer["hasMore"]
        return answer["result"]

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def kill(self):
        """kill -9, as a crash."""
        if self.is_alive():
            self.process.kill()
        self.process.wait()

    def wait_stopped(self):
        try:
            status = self.process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)
            self.process.wait()
            self.fail(f"themisd did not end within {STOP_LIMIT_S} s of SIGTERM")
        if SANITIZER.search(self.log()):
            self.fail("the sanitizer reports")
        if status != 0:
            self.fail(f"themisd ended with status {status}")

    def stop(self):
        """SIGTERM; must end well."""
        if not self.is_alive():
            self.fail(f"themisd is gone already, status {self.process.returncode}")
        self.process.terminate()
        self.wait_stopped()


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    server = Server(release_server(), tmp_path_factory.mktemp("real") / "data", real_models())
    yield server.wait_ready()
    server.stop()


@pytest.fixture(scope="module")
def sim(tmp_path_factory):
    server = Server(asan_server(), tmp_path_factory.mktemp("sim") / "data", SIM_MODELS)
    yield server.wait_ready()
    server.stop()


@pytest.fixture(scope="session")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def start(tmp_path):
    """start(models, ...) -> Server under ASan; those that still run at the end must stop well."""
    servers = []

    def make(models=None, *, binary=None, data="data", is_ready=True, **options):
        server = Server(binary or asan_server(), tmp_path / data,
                        SIM_MODELS if models is None else models, **options)
        servers.append(server)
        return server.wait_ready() if is_ready else server

    yield make
    left = [server for server in servers if server.is_alive()]
    try:
        for server in left:
            server.stop()
    finally:
        for server in left:
            server.kill()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """The end of the server's log beside a failure."""
    outcome = yield
    report = outcome.get_result()
    if report.when != "call" or not report.failed:
        return
    for name in ("real", "sim"):
        server = item.funcargs.get(name)
        if isinstance(server, Server):
            report.sections.append((f"log of {name}", server.log()[-8000:]))


def cli(server, *words, stdin=None, status=0, timeout=120, env=None):
    """Runs build/themis against a server; returns its output."""
    done = subprocess.run([program("THEMIS", "build/themis"), "--url", server.url, *map(str, words)],
                          input=stdin, capture_output=True, text=True, timeout=timeout, cwd=ROOT,
                          env={**os.environ, **(env or {})})
    assert done.returncode == status, f"{words}: status {done.returncode}\n{done.stdout}{done.stderr}"
    return done
