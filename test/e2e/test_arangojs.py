# SPDX-License-Identifier: Apache-2.0
"""The real arangojs against a node, under ASan: the cases are in node/arangojs.mjs."""
import os
import subprocess

from conftest import ROOT


def test_arangojs(start, tmp_path):
    (tmp_path / "password").write_text("root password")
    server = start(settings=["auth=true", f"root_password_file={tmp_path}/password"])
    done = subprocess.run(
        ["node", "--test", "--test-concurrency=1", ROOT / "test/e2e/node/arangojs.mjs"], timeout=300,
        capture_output=True, text=True,
        env={**os.environ, "THEMIS_URL": server.url, "NODE_CLIENTS": str(ROOT / "build/deps/node")})
    assert done.returncode == 0, done.stdout[-20000:] + done.stderr[-4000:]
    assert "# fail 0" in done.stdout and "# pass 11" in done.stdout, done.stdout[-3000:]
