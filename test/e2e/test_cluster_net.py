# SPDX-License-Identifier: Apache-2.0
"""Four nodes in network namespaces of their own: one is cut off while it answers, and comes back.

Needs root and the program ip (Debian: iproute2).
"""
import os
import subprocess

import pytest

from cluster import Cluster, wait_for
from test_cluster_chat import events

NET = "10.213.77"
PASSWORD = "of-a-test"


def ip(*words):
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"


class Wires:
    """A bridge on this machine, and namespaces that hang on it, one for each node."""

    def __init__(self, size):
        mark = os.getpid() % 100000
        self.bridge = f"tb{mark}"
        self.names = [f"tn{mark}-{i}" for i in range(1, size + 1)]
        self.made = []

    def lay(self):
        ip("link", "add", self.bridge, "type", "bridge")
        ip("addr", "add", f"{NET}.1/24", "dev", self.bridge)
        ip("link", "set", self.bridge, "up")
        for i, name in enumerate(self.names, 1):
            ip("netns", "add", name)
            self.made.append(name)
            ip("link", "add", self.outer(i), "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("link", "set", self.outer(i), "master", self.bridge)
            ip("link", "set", self.outer(i), "up")
            ip("-n", name, "addr", "add", f"{NET}.{10 + i}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "link", "set", "lo", "up")

    def outer(self, number):
        return f"{self.bridge}v{number}"

    def cut(self, number):
        ip("link", "set", self.outer(number), "down")

    def mend(self, number):
        ip("link", "set", self.outer(number), "up")

    def clear(self):
        for name in self.made:
            subprocess.run(["ip", "netns", "del", name], check=False)
        subprocess.run(["ip", "link", "del", self.bridge], check=False, stderr=subprocess.DEVNULL)


@pytest.fixture
def quad(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    wires, c = Wires(4), None
    try:
        wires.lay()
        c = Cluster(tmp_path, 4, host=f"{NET}.1")
        c.wires = wires
        for i, name in enumerate(wires.names, 1):
            c.add({"chat": "sim:chat,decode=10"}, host=f"{NET}.{10 + i}", flags=["--insecure"],
                  settings=("cluster_lease_s=3", "breaker_open_ms=500"),
                  prefix=["ip", "netns", "exec", name], auth=("root", PASSWORD),
                  env={"THEMIS_ROOT_PASSWORD": PASSWORD})
        c.wait_whole()
        yield c
    finally:
        if c:
            c.stop()
        wires.clear()


def test_a_node_that_is_cut_off_is_left_out_until_it_is_back(quad):
    n1, n2, n3, n4 = quad.nodes
    boot = n4.status()["boot"]
    words = " ".join(f"w{i}" for i in range(60))
    answer = n1.chat(words, shard=n4, stream=True)
    assert answer.headers["x-themis-shard"] == "n4"
    stream = events(answer)
    got = [next(stream), next(stream)]
    quad.wires.cut(4)
    got += stream
    assert "broke off" in got[-1]["error"]["message"]  # an end, and a reason
    for node in (n1, n2, n3):
        wait_for(lambda: node.sees(n4)["state"] == "down", f"{node.id} sees that n4 is cut off")
        wait_for(lambda: not node.sees(n4)["registered"], "the lease of n4 has run out")
    for i in range(12):  # whoever owned the slot, somebody answers
        answer = n1.chat(f"question {i}", max_tokens=1)
        assert answer.status_code == 200 and answer.headers["x-themis-shard"] != "n4"
    quad.wires.mend(4)
    quad.wait_whole()
    wait_for(lambda: all(n["registered"] for n in n1.status()["nodes"]), "n4 is registered again")
    assert n4.status()["boot"] == boot == n1.sees(n4)["boot"]  # the same process
    wait_for(lambda: n1.chat("back", shard=n4, max_tokens=1).status_code == 200, "n4 answers")
