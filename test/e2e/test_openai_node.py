# SPDX-License-Identifier: Apache-2.0
"""The real openai package for Node against nodes with real and simulated models: node/openai.mjs."""
import os
import subprocess
import time

from conftest import ROOT

SLOW = "sim:chat,decode=20,script=" + " ".join(f"w{n}" for n in range(400))


def running(server):
    return server.request("GET", "/_admin/status").json()["themis"]["inference"]["running"]


def test_openai_for_node(real, start):
    slow = start({"slow": SLOW})
    done = subprocess.run(
        ["node", "--test", "--test-concurrency=1", ROOT / "test/e2e/node/openai.mjs"], timeout=300,
        capture_output=True, text=True,
        env={**os.environ, "THEMIS_URL": real.url, "THEMIS_SLOW_URL": slow.url,
             "NODE_CLIENTS": str(ROOT / "build/deps/node")})
    assert done.returncode == 0, done.stdout[-20000:] + done.stderr[-4000:]
    assert "# fail 0" in done.stdout and "# pass 10" in done.stdout, done.stdout[-3000:]
    end = time.monotonic() + 10  # what the client broke off does not go on here
    while running(slow):
        assert time.monotonic() < end
        time.sleep(0.05)
