# SPDX-License-Identifier: Apache-2.0
"""What packages and service managers rely on: the unit, the shipped settings, readiness by sd_notify.
test/packaging/run.sh installs the package itself."""
import re
import signal
import socket
import subprocess

import pytest

from conftest import ROOT, SIM_MODELS, asan_server, cli, release_server

UNIT = ROOT / "packaging/themis.service"


def unit(key):
    return re.findall(rf"^{key}=(.*)$", UNIT.read_text(), re.M)


def seconds(text):
    return sum(int(n) * {"s": 1, "min": 60}[u] for n, u in re.findall(r"(\d+)(s|min)", text))


def settings():
    """name -> default, of themisd --help-settings."""
    text = subprocess.run([release_server(), "--help-settings"], capture_output=True, text=True,
                          check=True).stdout
    return dict(re.findall(r"^(\w+) \(.*?default ([^)]*)\)", text, re.M))


def test_systemd_accepts_the_unit(tmp_path):
    """With the program of this build in place of the installed one."""
    copy = tmp_path / "themis.service"
    copy.write_text(UNIT.read_text().replace("/usr/bin/themisd", str(release_server().resolve())))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", copy], capture_output=True, text=True)
    mine = [line for line in done.stderr.splitlines() if "themis" in line]
    assert done.returncode == 0 and mine == [], done.stderr


def test_the_unit_is_confined():
    done = subprocess.run(["systemd-analyze", "security", "--offline=yes", "--threshold=25", UNIT],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr


def test_the_unit_leaves_time_to_drain():
    drain_s = int(settings()["drain_timeout_ms"]) / 1000
    assert seconds(unit("TimeoutStopSec")[0]) >= drain_s + 30
    assert unit("RestartPreventExitStatus") == ["2"]  # of misuse, see below


def test_the_shipped_settings_are_settings(tmp_path):
    known, shipped = settings(), (ROOT / "packaging/themis.conf").read_text()
    names = re.findall(r"^#?([a-z_]+) = ", shipped, re.M)
    assert len(names) >= 5 and set(names) <= set(known)
    done = subprocess.run([release_server(), "--data", tmp_path / "none", "--check", "--config",
                           ROOT / "packaging/themis.conf"], capture_output=True, text=True)
    assert done.returncode == 1 and "none" in done.stderr + done.stdout  # read, and then no store
    wrong = tmp_path / "wrong.conf"
    wrong.write_text(shipped + "\nno_such_setting = 1\n")
    done = subprocess.run([release_server(), "--data", tmp_path / "none", "--config", wrong],
                          capture_output=True, text=True)
    assert done.returncode == 2 and "no_such_setting" in done.stderr


def test_the_container_starts_the_server_with_what_it_knows():
    text = (ROOT / "packaging/Containerfile").read_text()
    words = [word for kind in ("ENTRYPOINT", "CMD")
             for word in re.findall(r'"([^"]+)"', re.search(rf"^{kind} \[(.*)\]$", text, re.M).group(1))]
    assert words[0] == "themisd"
    known = subprocess.run([release_server(), "--help"], capture_output=True, text=True).stdout
    for flag in (word for word in words if word.startswith("--")):
        assert re.search(rf"^  {flag} ", known, re.M), flag
    for name in re.findall(r"(\w+)=/", " ".join(words)):
        assert name in settings(), name
    health = re.findall(r'"([^"]+)"', re.search(r"^    CMD \[(.*)\]$", text, re.M).group(1))
    assert health[0] == "themis" and health[-2:] == ["status", "--ready"]


@pytest.mark.parametrize("kind", ["path", "abstract"])
def test_the_service_manager_is_told(start, tmp_path, kind):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        name = str(tmp_path / "notify") if kind == "path" else f"@themis-test-{tmp_path.name}"
        manager.bind(name if kind == "path" else "\0" + name[1:])
        manager.settimeout(60)
        server = start(env={"NOTIFY_SOCKET": name}, is_ready=False)
        assert b"READY=1" in manager.recv(4096)
        server.wait_ready()  # it listens already
        assert server.request("GET", "/health").status_code == 200
        server.process.send_signal(signal.SIGTERM)
        assert b"STOPPING=1" in manager.recv(4096)
        server.wait_stopped()


@pytest.mark.parametrize("name", ["", "relative", "/nowhere/socket", "/" + "x" * 200, "@"])
def test_a_service_manager_that_is_not_there_is_no_reason_to_fail(start, name):
    server = start({}, env={"NOTIFY_SOCKET": name})
    assert server.request("GET", "/health").status_code == 200


def test_the_shell_asks_for_readiness_without_credentials(start):
    server = start(settings=["auth=on"], env={"THEMIS_ROOT_PASSWORD": "secret"})
    assert cli(server, "status", "--ready").stdout == "ready\n"
    assert cli(server, "status", status=1).stderr != ""
    server.stop()
    assert "themisd running?" in cli(server, "status", "--ready", status=1).stderr
