# SPDX-License-Identifier: Apache-2.0
"""What benchmarks in Python share: a node with the two small models, the load of the machine, and
the line of figures."""
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
MODELS = {"chat": ROOT / "build/models/SmolLM2-135M-Instruct.Q4_1.gguf",
          "embed": ROOT / "build/models/all-MiniLM-L6-v2.F16.gguf"}
START_LIMIT_S = 120


def die(text):
    sys.exit(f"bench: {text}")


def option(name):
    """The word behind the option, or None."""
    words = sys.argv[1:]
    return words[words.index(name) + 1] if name in words[:-1] else None


# ---- a node ----

class Node:
    def __init__(self, process, port):
        self.process, self.url = process, f"http://127.0.0.1:{port}"

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=600) as reply:
                return json.load(reply)
        except urllib.error.HTTPError as e:
            die(f"{method} {path}: {e.code} {e.read().decode(errors='replace')}")

    def aql(self, query):
        return self.call("POST", "/_api/cursor", {"query": query})["result"]

    def import_folders(self, folder, names):
        """`themis import` inside the folder, so that a document's path is relative to it."""
        done = subprocess.run([ROOT / "build/themis", "--url", self.url, "--json", "import", *names],
                              cwd=folder, capture_output=True, text=True)
        if done.returncode != 0:
            die(f"the import failed: {done.stderr}")
        return json.loads(done.stdout)


def start_node(folder, data):
    """Its log is themisd.log in the folder."""
    for path in (ROOT / "build/themisd", ROOT / "build/themis", *MODELS.values()):
        if not path.exists():
            die(f"{path.relative_to(ROOT)} is missing: tools/deps.sh run, then tools/build.sh release")
    log = folder / "themisd.log"
    command = [ROOT / "build/themisd", "--data", data, "--listen", "127.0.0.1:0"]
    for name, file in MODELS.items():
        command += ["--model", f"{name}={file}"]
    with open(log, "wb") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    end = time.monotonic() + START_LIMIT_S
    while time.monotonic() < end and process.poll() is None:
        found = re.search(r"listens on http://[^ ]+:(\d+)", log.read_text(errors="replace"))
        if found:
            return Node(process, int(found.group(1)))
        time.sleep(0.05)
    process.kill()
    process.wait()
    die(f"the node did not start:\n{log.read_text(errors='replace')[-2000:]}")


# ---- lines ----

def machine_seconds():
    """Busy and stolen seconds of all cores since the start of the machine."""
    user, nice, system, _, _, irq, softirq, steal = map(
        int, pathlib.Path("/proc/stat").read_text().split("\n")[0].split()[1:9])
    tick = os.sysconf("SC_CLK_TCK")
    return (user + nice + system + irq + softirq) / tick, steal / tick


def process_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Load:
    """How many cores others, the node and this script, and the machine's host have used."""

    def __init__(self, node):
        self.node, self.since = node, self.mark(node)

    @staticmethod
    def mark(node):
        own = process_seconds(node.process.pid)
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
            usage = resource.getrusage(who)
            own += usage.ru_utime + usage.ru_stime
        return (time.monotonic(), *machine_seconds(), own)

    def conditions(self):
        seconds, busy, stolen, own = (b - a for a, b in zip(self.since, self.mark(self.node)))
        cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
        commit = os.environ.get("BENCH_COMMIT") or subprocess.run(
            ["git", "describe", "--always", "--dirty", "--exclude", "*"], cwd=ROOT,
            capture_output=True, text=True).stdout.strip()
        return {"seconds": f"{seconds:.1f}", "others": f"{max(0, busy - own) / seconds:.3f}",
                "own": f"{own / seconds:.3f}", "stolen": f"{stolen / seconds:.3f}",
                "commit": commit or "unknown", "cores": os.cpu_count(),
                "cpu": cpu.group(1) if cpu else "unknown"}


def print_line(name, what, figures, load):
    def text(value):
        value = f"{value:.3f}" if isinstance(value, float) else str(value)
        return f'"{value}"' if re.search(r"\s", value) or not value else value
    values = {"what": what, **figures, **load.conditions()}
    print(f"bench {name} " + " ".join(f"{key}={text(value)}" for key, value in values.items()),
          flush=True)
