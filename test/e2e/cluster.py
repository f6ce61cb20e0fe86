# SPDX-License-Identifier: Apache-2.0
"""A cluster on this machine for tests: a real etcd, certificates, nodes."""
import os
import re
import shutil
import signal
import socket
import subprocess
import time

import pytest

from conftest import ROOT, Server, asan_server, program

LIMIT_S = 90  # for whatever must come about; the machine may be busy


def wait_for(condition, what, limit_s=LIMIT_S):
    """Until it holds; returns what it gave."""
    end = time.monotonic() + limit_s
    while True:
        got = condition()
        if got:
            return got
        if time.monotonic() > end:
            pytest.fail(f"not within {limit_s} s: {what}", pytrace=False)
        time.sleep(0.05)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Etcd:
    """Debian's etcd on ports of its own. A port may be taken meanwhile: then others."""

    def __init__(self, directory, host="127.0.0.1"):
        assert shutil.which("etcd"), "etcd is missing: tools/deps.sh test installs etcd-server"
        self.directory, self.host = directory, host
        self.log_path = directory / "etcd.log"
        self.process = None
        for _ in range(5):
            self.port, self.peer_port = free_port(), free_port()
            if self.start():
                return
        pytest.fail(f"etcd does not start\n{self.log_path.read_text()}", pytrace=False)

    @property
    def url(self):
        return f"http://{self.host}:{self.port}"

    def start(self):
        peer = f"http://127.0.0.1:{self.peer_port}"
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                ["etcd", "--name", "e", "--data-dir", str(self.directory / "etcd"),
                 "--listen-client-urls", self.url, "--advertise-client-urls", self.url,
                 "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                 "--initial-cluster", f"e={peer}"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                env={**os.environ, "ETCD_UNSUPPORTED_ARCH": os.uname().machine})
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end and self.process.poll() is None:
            try:
                socket.create_connection((self.host, self.port), timeout=5).close()
                return True
            except OSError:
                time.sleep(0.05)
        self.stop()
        return False

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def empty(self):
        shutil.rmtree(self.directory / "etcd")


class Node:
    """A node of a cluster, which may start again at the same addresses."""

    def __init__(self, cluster, number, models, settings, flags, host="127.0.0.1", **options):
        self.cluster, self.id = cluster, f"n{number}"
        self.models, self.settings, self.flags = models, settings, list(flags)
        self.listen = self.cluster_listen = f"{host}:0"
        self.host, self.options = host, options  # of Server
        self.server = None

    def start(self, is_ready=True):
        c = self.cluster
        self.server = Server(
            c.binary, c.directory / self.id, self.models, listen=self.listen, settings=self.settings,
            flags=["--cluster", "test", "--node-id", self.id, "--etcd", c.etcd.url,
                   "--cluster-listen", self.cluster_listen, "--certs", c.certs / self.id,
                   *self.flags], **self.options)
        if is_ready:
            self.server.wait_ready()
            self.listen = f"{self.host}:{self.server.port}"
            found = re.search(r"listens for nodes on ([^ ,]+)", self.server.log())
            self.cluster_listen = found.group(1)
        return self

    @property
    def cluster_port(self):
        return int(self.cluster_listen.rsplit(":", 1)[1])

    def status(self):
        answer = self.server.request("GET", "/_admin/cluster")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def sees(self, other):
        """What it knows of another node; {} when nothing."""
        return next((n for n in self.status()["nodes"] if n["id"] == other.id), {})

    def chat(self, text, *, shard=None, **body):
        headers = {"x-themis-shard": shard.id} if shard else {}
        return self.server.request(
            "POST", "/v1/chat/completions", headers=headers, stream=body.get("stream", False),
            json={"model": "chat", "messages": [{"role": "user", "content": text}],
                  "temperature": 0, **body}, timeout=120)

    def running(self):
        status = self.server.request("GET", "/_admin/status").json()
        return status["themis"]["inference"]["running"]

    def kill(self):
        self.server.kill()

    def pause(self):
        self.server.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.server.process.send_signal(signal.SIGCONT)


class Cluster:
    """Certificates for size nodes; add() starts one after the other."""

    def __init__(self, directory, size, *, binary=None, host="127.0.0.1"):
        self.directory, self.binary = directory, binary or asan_server()
        self.certs = directory / "certs"
        self.nodes = []
        self.etcd = Etcd(directory, host)
        self.make_certs(size)

    def make_certs(self, size):
        done = subprocess.run([program("THEMIS", "build/themis"), "cluster", "certs",
                               str(self.certs), "--nodes", str(size)],
                              capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == 0, done.stderr

    def add(self, models=None, *, settings=(), flags=(), **options):
        node = Node(self, len(self.nodes) + 1, {"chat": "sim:chat"} if models is None else models,
                    settings, flags, **options)
        self.nodes.append(node)
        return node.start()

    def wait_whole(self):
        """Until every node sees every other one, in one topology."""
        running = [n for n in self.nodes if n.server.is_alive()]
        for node in running:
            wait_for(lambda: {n["state"] for n in node.status()["nodes"]
                              if n["id"] in {r.id for r in running}} <= {"self", "up"}
                     and len(node.status()["nodes"]) == len(self.nodes),
                     f"{node.id} sees all nodes")

    def stop(self):
        """All must end well, but for those that were killed."""
        try:
            for node in self.nodes:
                if node.server.is_alive():
                    node.resume()
                    node.server.stop()
        finally:
            for node in self.nodes:
                node.server.kill()
            self.etcd.stop()
