# SPDX-License-Identifier: Apache-2.0
"""`themis query` at a pseudo terminal and in scripts: statements, history, interruption, plans; help and
completion."""
import json
import os
import re
import shutil
import stat
import subprocess
import time

import pexpect
import pytest

from conftest import cli, program

WORDS = "word " * 400


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    from conftest import Server, asan_server
    server = Server(asan_server(), tmp_path_factory.mktemp("shell") / "data",
                    {"chat": "sim:chat,decode=5,script=" + WORDS}).wait_ready()
    server.request("POST", "/_api/collection", json={"name": "things"})
    server.request("POST", "/_api/document/things", json=[{"_key": f"k{i}", "n": i} for i in range(2500)])
    server.request("POST", "/_api/index?collection=things",
                   json={"type": "persistent", "fields": ["n"], "name": "by_n"})
    yield server
    server.stop()


class Shell:
    """themis query at a terminal of its own."""

    def __init__(self, server, home, *words, state=None):
        env = {**os.environ, "HOME": str(home), "TERM": "xterm", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8",
               "ASAN_OPTIONS": "detect_leaks=1"}
        env.pop("XDG_STATE_HOME", None)
        if state:
            env["XDG_STATE_HOME"] = str(state)
        self.child = pexpect.spawn(str(program("THEMIS", "build/themis")),
                                   ["--url", server.url, *words, "query"], env=env, timeout=20,
                                   encoding="utf-8", dimensions=(40, 160))
        self.wait(r"aql> ")

    def wait(self, pattern):
        self.child.expect(pattern)
        return plain(self.child.before)

    def say(self, line, then=r"aql> "):
        """Types a line; what is printed until the next prompt."""
        self.child.sendline(line)
        return self.wait(then)

    def leave(self):
        """Ctrl-D; again when it came before the terminal was ready for keys."""
        for _ in range(10):
            self.child.sendeof()
            if self.child.expect([pexpect.EOF, pexpect.TIMEOUT], timeout=2) == 0:
                break
        self.end()

    def end(self, status=0):
        self.child.expect(pexpect.EOF)
        self.child.close()
        assert self.child.exitstatus == status, (self.child.exitstatus, self.child.signalstatus)


def plain(text):
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", "", text)


def history_of(home):
    return home / ".local/state/themis/history"


# ---- statements ----

def test_a_semicolon_ends_a_statement(node, tmp_path):
    shell = Shell(node, tmp_path)
    assert "\n42\n" in shell.say("RETURN 40 + 2;")
    out = shell.say("RETURN 'one'; RETURN 'two';")
    assert '"one"' in out and '"two"' in out and out.index('"one"') < out.index('"two"')
    shell.say("\\q", then=pexpect.EOF)


def test_a_statement_has_lines(node, tmp_path):
    shell = Shell(node, tmp_path)
    shell.say("FOR i IN 1..3", then=r"\.\.\.> ")
    shell.say("  FILTER i > 1 // not ; the end", then=r"\.\.\.> ")
    out = shell.say("  RETURN {i, text: ';'};")
    assert re.search(r"i +text", out) and re.search(r"\n2 +;", out) and "2 rows" in out
    shell.say("RETURN 77", then=r"\.\.\.> ")
    assert "\n77\n" in shell.say("")      # an empty line ends it too
    assert shell.say("").strip() == ""    # and is nothing by itself
    shell.say("RETURN 'a", then=r"\.\.\.> ")
    shell.say("", then=r"\.\.\.> ")       # inside a string it does not
    assert "error" not in shell.say("b';")
    shell.leave()


def test_an_error_is_told_and_the_prompt_goes_on(node, tmp_path):
    shell = Shell(node, tmp_path)
    assert "syntax error" in shell.say("RETURN;")
    assert "nowhere" in shell.say("FOR x IN nowhere RETURN x;")
    assert "unknown command '\\z'" in shell.say("\\z")
    assert "\n1\n" in shell.say("RETURN 1;")
    shell.say("exit", then=pexpect.EOF)
    shell.end()


def test_commands_of_the_prompt(node, tmp_path):
    shell = Shell(node, tmp_path)
    assert "\\d [COLLECTION]" in shell.say("\\h")
    assert re.search(r"things +documents", shell.say("\\d"))
    assert "by_n" in shell.say("\\d things")
    assert "_system" in shell.say("\\c")
    assert "no query yet" in shell.say("\\p")
    assert "by_n" in shell.say("\\p FOR t IN things FILTER t.n == 5 RETURN t")
    shell.say("RETURN 5;")
    assert "RETURN 5" in shell.say("\\p")
    assert '{"a":1}' in shell.say("\\j").replace("\n", "") + shell.say("RETURN {a: 1};")
    node.request("POST", "/_api/database", json={"name": "other"})
    assert "not found" in shell.say("\\c nodb")
    shell.say("\\c other", then="other> ")
    assert "nothing" not in shell.say("RETURN LENGTH(COLLECTIONS()[* FILTER CURRENT.name == 'things']);",
                                      then="other> ")
    shell.say("quit", then=pexpect.EOF)
    shell.end()


def test_large_answers_come_whole(node, tmp_path):
    shell = Shell(node, tmp_path)
    out = shell.say("FOR t IN things SORT t.n RETURN CONCAT('<', t.n, '>');")
    assert out.count('>"') == 2500 and "2500 rows" in out
    shell.leave()


# ---- interruption ----

def test_ctrl_c_gives_up_what_is_typed(node, tmp_path):
    shell = Shell(node, tmp_path)
    shell.say("RETURN 13", then=r"\.\.\.> ")
    shell.child.send("half a line")
    shell.child.sendintr()
    shell.wait(r"\^C")
    shell.wait("aql> ")
    out = shell.say("RETURN 14;")
    assert "\n14\n" in out and "13" not in out and "error" not in out
    shell.child.sendintr()
    shell.wait(r"\^C\r\n.*aql> ")
    assert "\n15\n" in shell.say("RETURN 15;")
    shell.leave()


def running(server):
    status = server.request("GET", "/_admin/status").json()["themis"]["inference"]
    return status["running"] + status["waiting"]


def until(condition, what):
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def test_ctrl_c_ends_the_query_that_runs(node, tmp_path):
    shell = Shell(node, tmp_path)
    shell.child.sendline("RETURN INFER 'chat' 'a long story';")
    until(lambda: running(node) == 1, "the query did not start")
    shell.child.sendintr()
    assert "interrupted" in shell.wait("aql> ")
    until(lambda: running(node) == 0, "the query still runs")
    assert "\n16\n" in shell.say("RETURN 16;")
    shell.leave()


def test_a_server_that_goes_away_is_no_end(node, start, tmp_path):
    server = start({})
    shell = Shell(server, tmp_path)
    assert "\n1\n" in shell.say("RETURN 1;")
    server.stop()
    assert "is themisd running?" in shell.say("RETURN 2;")
    shell.leave()


# ---- history ----

def test_the_history_outlives_the_shell(node, tmp_path):
    shell = Shell(node, tmp_path)
    shell.say("RETURN 'from', ", then=r"\.\.\.> ")
    shell.child.sendintr()
    shell.wait("aql> ")
    shell.say("RETURN", then=r"\.\.\.> ")
    shell.say("  'from the past';")
    shell.say(" RETURN 'a secret';")
    shell.leave()

    file = history_of(tmp_path)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    text = file.read_text()
    assert "past" in text and "secret" not in text

    shell = Shell(node, tmp_path)
    shell.child.send("\x1b[A")  # the line before, of the other shell
    assert '"from the past"' in shell.say("")
    shell.leave()


def test_the_history_is_where_xdg_says(node, tmp_path):
    shell = Shell(node, tmp_path, state=tmp_path / "state")
    shell.say("RETURN 1;")
    shell.leave()
    assert (tmp_path / "state/themis/history").exists()
    assert not history_of(tmp_path).exists()


def test_a_history_that_cannot_be_kept_stops_nothing(node, tmp_path):
    (tmp_path / ".local").write_text("a file where a folder should be")
    shell = Shell(node, tmp_path)
    assert "\n1\n" in shell.say("RETURN 1;")
    shell.leave()


def test_no_history_without_a_terminal(node, tmp_path):
    cli(node, "query", stdin="RETURN 1;", env={"HOME": str(tmp_path)})
    assert list(tmp_path.iterdir()) == []


# ---- scripts ----

def test_a_file_of_statements(node):
    done = cli(node, "query", stdin="// a comment; only\nRETURN 1;\nRETURN ';'\n;\n\n RETURN 3")
    assert done.stdout == '1\n";"\n3\n'
    done = cli(node, "query", stdin="RETURN 1; RETURN; RETURN 3;", status=1)
    assert done.stdout == "1\n" and "syntax error" in done.stderr
    assert cli(node, "query", "RETURN 1;").stdout == "1\n"
    assert cli(node, "query", stdin="").stdout == ""


@pytest.mark.parametrize("words, text", [
    (["--bind", "[1]", "RETURN 1"], "JSON object"), (["--bind", "{", "RETURN 1"], "JSON object"),
    (["RETURN", "1"], "quote it"), (["--no-such", "RETURN 1"], "--no-such"), (["--bind"], "needs a value")])
def test_misuse(node, words, text):
    assert text in cli(node, "query", *words, status=2).stderr


# ---- plans ----

def test_explain_shows_nodes_estimates_indexes_and_rules(node):
    query = """FOR t IN things FILTER t.n >= 20
               LET s = (FOR u IN things FILTER u.n == t.n RETURN u) SORT t.x LIMIT 3 RETURN s"""
    out = cli(node, "query", "--explain", query).stdout
    lines = out.splitlines()
    assert lines[0].split() == ["id", "node", "rows", "plan"]
    kinds = [line.split()[1] for line in lines[1:lines.index("")]]
    assert kinds[:3] == ["Singleton", "Index", "Subquery"] and kinds[-1] == "Return"
    inner = [line for line in lines if re.match(r" *\d+ {4}\w", line)]
    assert len(inner) == 3, out  # of the subquery, indented
    assert "things.by_n, persistent on n, from 20" in out
    assert "things.by_n, persistent on n, equal to t.`n`" in out
    rules = re.search(r"^Rules +(.*)$", out, re.M).group(1).split(", ")
    answer = json.loads(cli(node, "--json", "query", "--explain", query).stdout)
    assert rules == answer["plan"]["rules"] and "use-indexes" in rules
    for given in answer["plan"]["nodes"]:
        line = next(line for line in lines if line.startswith(f"{given['id']:4d} "))
        assert given["text"] in line and f" {given['estimatedNrItems']:.0f} " in line


def test_explain_takes_bind_values_and_tells_errors(node):
    out = cli(node, "query", "--explain", "--bind", '{"n": 5}', "FOR t IN things FILTER t.n == @n RETURN t")
    assert "equal to 5" in out.stdout
    assert "syntax error" in cli(node, "query", "--explain", "RETURN", status=1).stderr
    assert "none applied" in cli(node, "query", "--explain", "RETURN 1").stdout
    assert node.rows("RETURN DOCUMENT('things/explained')") == [None]
    cli(node, "query", "--explain", "INSERT {_key: 'explained'} INTO things")
    assert node.rows("RETURN DOCUMENT('things/explained')") == [None]


# ---- help and completion: what the tables say ----

def commands():
    out = subprocess.run([program("THEMIS", "build/themis"), "--help"], capture_output=True, text=True,
                         check=True).stdout
    found = re.findall(r"^  ([a-z]+) +[A-Z]", out, re.M)
    assert len(found) >= 11 and found == sorted(found)
    return found


def test_each_command_has_help_with_its_options():
    for name in commands():
        out = subprocess.run([program("THEMIS", "build/themis"), name, "--help"], capture_output=True,
                             text=True, check=True).stdout
        usage = out.splitlines()[0]
        assert usage.startswith(f"usage: themis {name}")
        for option in re.findall(r"--[a-z-]+", usage):
            assert re.search(rf"^  {option} ", out, re.M), (name, option)


def complete(tmp_path, *words):
    """What bash offers for the last word."""
    script = tmp_path / "completion"
    script.write_text(subprocess.run([program("THEMIS", "build/themis"), "--completion", "bash"],
                                     capture_output=True, text=True, check=True).stdout)
    ask = ('. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _themis; '
           'printf "%s\\n" "${COMPREPLY[@]}"')
    return subprocess.run(["bash", "-uc", ask, "bash", script, "themis", *words], capture_output=True,
                          text=True, check=True, cwd=tmp_path).stdout.split()


def test_bash_completes_commands_options_words_and_files(tmp_path):
    assert set(commands()) <= set(complete(tmp_path, ""))
    assert complete(tmp_path, "che") == ["check"]
    assert complete(tmp_path, "query", "--ex") == ["--explain"]
    assert complete(tmp_path, "--url", "http://x", "query", "--ex") == ["--explain"]
    assert complete(tmp_path, "model", "a") == ["add"]
    assert complete(tmp_path, "ask", "--expl") == []
    assert complete(tmp_path, "--cacert", "comp") == ["completion"]
    assert complete(tmp_path, "--url", "") == []


@pytest.mark.skipif(not shutil.which("zsh"), reason="no zsh")
def test_zsh_reads_its_completion(tmp_path):
    script = tmp_path / "_themis"
    script.write_text(subprocess.run([program("THEMIS", "build/themis"), "--completion", "zsh"],
                                     capture_output=True, text=True, check=True).stdout)
    subprocess.run(["zsh", "-n", script], check=True, capture_output=True)


def test_no_other_shell_is_completed():
    done = subprocess.run([program("THEMIS", "build/themis"), "--completion", "fish"], capture_output=True,
                          text=True)
    assert done.returncode == 2 and "bash or zsh" in done.stderr
