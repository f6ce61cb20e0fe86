# SPDX-License-Identifier: Apache-2.0
"""What the retrieval benchmark and its calibration share: the questions and the rule for their
wording, the documents, a node with the small models, and the line of figures."""
import contextlib
import ctypes
import functools
import gzip
import os
import pathlib
import re
import signal
import tempfile

import bench_node
from bench_node import ROOT, Load, die, option, start_node

print_line = functools.partial(bench_node.print_line, "retrieval")

DATA = pathlib.Path(__file__).resolve().parent / "retrieval_data"
SHARED_WORDS_MAX = 2
DISTRACTOR_CHUNKS_MIN = 1000

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

@contextlib.contextmanager
def running_node():
    """A node with the corpus: the samples and the unrelated documents. `--data DIR` keeps its store
    there, so that the next run finds the documents imported."""
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
