# SPDX-License-Identifier: Apache-2.0
"""What the retrieval benchmark and its calibration share: the questions and the rule for their
wording, the documents, a node with the small models, and the line of figures."""
import contextlib
import ctypes
import gzip
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
DATA = pathlib.Path(__file__).resolve().parent / "retrieval_data"
MODELS = {"chat": ROOT / "build/models/SmolLM2-135M-Instruct.Q4_1.gguf",
          "embed": ROOT / "build/models/all-MiniLM-L6-v2.F16.gguf"}
SHARED_WORDS_MAX = 2
DISTRACTOR_CHUNKS_MIN = 1000
START_LIMIT_S = 120

# Documents that the questions are not about: Debian package, file, name in the corpus.
UNRELATED = [
    ("debian-policy", "/usr/share/doc/debian-policy/policy.txt.gz", "policy.txt"),
    ("debian-faq", "/usr/share/doc/debian/FAQ/debian-faq.en.txt.gz", "faq.txt"),
    ("developers-reference", "/usr/share/developers-reference/developers-reference.txt.gz",
     "developers-reference.txt"),
    ("doc-debian", "/usr/share/doc/debian/constitution.txt.gz", "constitution.txt"),
] + [("base-files", f"/usr/share/common-licenses/{name}", f"licences/{name}.txt")
     for name in ("Apache-2.0", "Artistic", "CC0-1.0", "GFDL-1.3", "GPL-3", "MPL-2.0")]

# Snowball's list of English function words, with the modal verbs and question words it leaves out.
FUNCTION_WORDS = frozenset("""
i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her
hers herself it its itself they them their theirs themselves what which who whom whose this that
these those am is are was were be been being have has had having do does did doing would should
could ought can may might must shall will a an the and but if or because as until while of at by for
with about against between into through during before after above below to from up down in out on
off over under again further then once here there when where why how all any both each few more most
other some such no nor not only own same so than too very many much somebody anybody nobody everybody
someone anyone everyone something anything nothing everything
""".split())


def die(text):
    sys.exit(f"bench: {text}")


# ---- questions ----

class Question:
    """source: path of the document that answers, None when none does; kind: answerable, near, far."""

    def __init__(self, line):
        source, self.span, self.text = line.split("\t")
        self.kind = source if source in ("near", "far") else "answerable"
        self.source = source if self.kind == "answerable" else None


def read_questions(name):
    lines = (DATA / name).read_text(encoding="utf-8").splitlines()
    return [Question(line) for line in lines if line and not line.startswith("#")]


class Stemmer:
    """The Snowball stemmer for English (libstemmer, which themis is built with)."""

    def __init__(self):
        try:
            self.library = ctypes.CDLL("libstemmer.so.0d")
        except OSError:
            die("libstemmer is missing: tools/deps.sh build installs it")
        self.library.sb_stemmer_new.restype = ctypes.c_void_p
        self.library.sb_stemmer_stem.restype = ctypes.c_void_p
        self.library.sb_stemmer_stem.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int]
        self.library.sb_stemmer_length.argtypes = [ctypes.c_void_p]
        self.handle = self.library.sb_stemmer_new(b"english", None)

    def stem(self, word):
        bytes_ = word.encode()
        stem = self.library.sb_stemmer_stem(self.handle, bytes_, len(bytes_))
        return ctypes.string_at(stem, self.library.sb_stemmer_length(self.handle)).decode()

    def content_words(self, text):
        text = re.sub(r"'s\b", "", text.lower().replace("\u2019", "'"))
        words = re.findall(r"[^\W_]+(?:[.,:]\d+)*", text)
        return {self.stem(word) for word in words if word not in FUNCTION_WORDS}


def check_questions(questions, is_worded_apart):
    """Each span is in its source; with is_worded_apart no question repeats its source's words."""
    stemmer, problems = Stemmer(), []
    for q in questions:
        if not q.source or q.source.startswith("debian/"):
            continue
        text = (ROOT / "samples" / q.source).read_text(encoding="utf-8")
        if flat(q.span) not in flat(text):
            problems.append(f"{q.source} does not contain '{q.span}'")
        shared = stemmer.content_words(q.text) & stemmer.content_words(text)
        if is_worded_apart and len(shared) > SHARED_WORDS_MAX:
            problems.append(f"'{q.text}' shares {len(shared)} words with {q.source}: "
                            + ", ".join(sorted(shared)))
    if problems:
        die("questions are refused:\n  " + "\n  ".join(problems))


def flat(text):
    return " ".join(text.split())


# ---- documents ----

def read_document(path):
    path = pathlib.Path(path)
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return data.decode("utf-8", errors="replace")


def check_unrelated():
    missing = sorted({package for package, file, _ in UNRELATED if not os.path.exists(file)})
    if not missing:
        return
    files = [file for package, file, _ in UNRELATED if package in missing]
    die("documents of the corpus are missing:\n  " + "\n  ".join(files) + "\n"
        f"install them: apt-get install --no-install-recommends {' '.join(missing)}\n"
        "(where they are installed and still missing, a path-exclude in /etc/dpkg/dpkg.cfg.d keeps "
        "documentation out)")


def write_unrelated(folder):
    for _, file, name in UNRELATED:
        target = folder / "debian" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(read_document(file), encoding="utf-8")


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


def option(name):
    """The word behind the option, or None."""
    words = sys.argv[1:]
    return words[words.index(name) + 1] if name in words[:-1] else None


@contextlib.contextmanager
def running_node():
    """A node with the corpus: the samples and the unrelated documents. `--data DIR` keeps its store
    there, so that the next run finds the documents imported."""
    for path in (ROOT / "build/themisd", ROOT / "build/themis", *MODELS.values()):
        if not path.exists():
            die(f"{path.relative_to(ROOT)} is missing: tools/deps.sh run, then tools/build.sh release")
    check_unrelated()
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR"), prefix="retrieval-") as name:
        folder = pathlib.Path(name)
        write_unrelated(folder)
        node = start_node(folder, pathlib.Path(option("--data") or folder / "data").absolute())
        try:
            load = Load(node)
            imported = [node.import_folders(ROOT / "samples", ["legal", "medical", "geospatial"]),
                        node.import_folders(folder, ["debian"])]
            corpus = node.aql("FOR c IN chunks COLLECT unrelated = STARTS_WITH(c.path, 'debian/') "
                              "WITH COUNT INTO n RETURN [unrelated, n]")
            chunks = {is_unrelated: n for is_unrelated, n in corpus}
            if chunks.get(True, 0) < DISTRACTOR_CHUNKS_MIN:
                die(f"the unrelated documents have {chunks.get(True, 0)} chunks, "
                    f"{DISTRACTOR_CHUNKS_MIN} are needed")
            print_line("corpus", {"imported": sum(i["documents"] for i in imported),
                                  "chunks": sum(chunks.values()),
                                  "unrelated_chunks": chunks[True]}, load)
            yield node
        finally:
            node.process.send_signal(signal.SIGTERM)
            node.process.wait()


def start_node(folder, data):
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


def print_line(what, figures, load):
    def text(value):
        value = f"{value:.3f}" if isinstance(value, float) else str(value)
        return f'"{value}"' if re.search(r"\s", value) or not value else value
    values = {"what": what, **figures, **load.conditions()}
    print("bench retrieval " + " ".join(f"{key}={text(value)}" for key, value in values.items()),
          flush=True)
