# SPDX-License-Identifier: Apache-2.0
"""TLS: real clients over https, certificates that are wrong or change, peers that misbehave."""
import shutil
import signal
import socket
import ssl
import subprocess
import time

import httpx2
import openai
import pytest
import requests
from arango import ArangoClient
from arango.exceptions import ArangoClientError
from conftest import SIM_MODELS, Server, asan_server, cli

PASSWORD = {"THEMIS_ROOT_PASSWORD": "secret"}


@pytest.fixture(scope="module")
def good(authority):
    return authority.issue("good")


@pytest.fixture(scope="module")
def server(tmp_path_factory, good):
    server = Server(asan_server(), tmp_path_factory.mktemp("tls") / "data", SIM_MODELS,
                    certificate=good)
    yield server.wait_ready()
    server.stop()


def trust(server):
    return ssl.create_default_context(cafile=str(server.ca))


def curl(server, *words, stdin=None):
    return subprocess.run(["curl", "-sS", "--noproxy", "*", *map(str, words)], capture_output=True,
                          text=True, input=stdin, timeout=60)


def subject(server):
    """Name in the certificate that a new connection gets."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as s, \
            trust(server).wrap_socket(s, server_hostname="127.0.0.1") as tls:
        return dict(pair[0] for pair in tls.getpeercert()["subject"])["commonName"]


def wait_for(what, limit_s=30):
    end = time.monotonic() + limit_s
    while not what():
        assert time.monotonic() < end
        time.sleep(0.05)


# ---- clients ----

def test_curl(server):
    done = curl(server, "--cacert", server.ca, server.url + "/livez")
    assert done.returncode == 0 and "ok" in done.stdout, done
    assert curl(server, server.url + "/livez").returncode == 60  # not an authority it knows
    assert curl(server, "--cacert", server.ca, "--resolve", f"other:{server.port}:127.0.0.1",
                f"https://other:{server.port}/livez").returncode == 60
    assert curl(server, "--cacert", server.ca, "--tls-max", "1.1", "--ciphers", "ALL:@SECLEVEL=0",
                server.url + "/livez").returncode == 35


def test_python_arango(server):
    client = ArangoClient(hosts=server.url, verify_override=str(server.ca))
    db = client.db("_system", username="root", password="", verify=True)
    people = db.create_collection("people")
    people.insert_many([{"_key": f"p{i}", "age": i} for i in range(1000)])
    assert list(db.aql.execute("FOR p IN people FILTER p.age < 3 SORT p.age RETURN p._key",
                               batch_size=2)) == ["p0", "p1", "p2"]
    db.delete_collection("people")
    client.close()
    stranger = ArangoClient(hosts=server.url)
    with pytest.raises(ArangoClientError):
        stranger.db("_system", username="root", password="", verify=True)
    stranger.close()


def test_openai(server):
    with httpx2.Client(verify=trust(server)) as http, \
            openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0,
                          http_client=http) as client:
        options = {"model": "chat", "messages": [{"role": "user", "content": "go"}], "max_tokens": 20}
        whole = client.chat.completions.create(**options).choices[0].message.content
        pieces = [chunk.choices[0].delta.content or ""
                  for chunk in client.chat.completions.create(**options, stream=True)]
        assert len(pieces) > 2 and "".join(pieces) == whole


def test_shell(server, tmp_path):
    assert "42" in cli(server, "--cacert", server.ca, "query", "RETURN 40 + 2").stdout
    assert "42" in cli(server, "query", "RETURN 40 + 2", env={"THEMIS_CACERT": str(server.ca)}).stdout
    done = cli(server, "query", "RETURN 1", status=1)
    assert "is not trusted" in done.stderr and "--cacert FILE" in done.stderr
    done = cli(server, "--cacert", "/nonexistent.pem", "query", "RETURN 1", status=2)
    assert "/nonexistent.pem cannot be used: No such file" in done.stderr
    lines = tmp_path / "lines.jsonl"
    lines.write_text("".join(f'{{"_key": "k{i}", "text": "{"x" * 200}"}}\n' for i in range(5000)))
    cli(server, "--cacert", server.ca, "import", "--collection", "lines", lines)
    assert server.rows("RETURN LENGTH(FOR l IN lines RETURN 1)") == [5000]


# ---- what the server demands ----

@pytest.mark.parametrize("settings, word", [
    (["tls_cert_file={cert}"], "tls_key_file is unset"),
    (["tls_key_file={key}"], "tls_cert_file is unset"),
    (["tls_cert_file=/nonexistent.pem", "tls_key_file={key}"], "No such file"),
    (["tls_cert_file={cert}", "tls_key_file={other}"], "key values mismatch"),
    (["tls_cert_file={key}", "tls_key_file={key}"], "cannot be used"),
])
def test_bad_certificate_at_start(start, authority, good, settings, word):
    other = authority.issue("other")
    server = start(settings=[text.format(cert=good.cert, key=good.key, other=other.key)
                             for text in settings], is_ready=False)
    assert server.process.wait(60) == 2
    assert word in server.log()


def test_off_loopback(start, good):
    server = start(listen="0.0.0.0:0", certificate=good, data="a", is_ready=False)
    assert server.process.wait(60) == 2 and "needs a password" in server.log()
    server = start(listen="0.0.0.0:0", env=PASSWORD, data="b", is_ready=False)
    assert server.process.wait(60) == 2 and "needs TLS" in server.log()
    server = start(listen="0.0.0.0:0", flags=["--insecure"], data="c", is_ready=False)
    assert server.process.wait(60) == 2 and "needs a password" in server.log()
    for data, options in (("d", {"certificate": good}), ("e", {"flags": ["--insecure"]})):
        server = start(listen="0.0.0.0:0", env=PASSWORD, data=data, **options)
        assert server.url.startswith("https" if data == "d" else "http:")
        assert server.request("GET", "/_api/version").status_code == 401
        assert server.request("GET", "/_api/version", auth=("root", "secret")).status_code == 200
        server.stop()


def test_expired_is_warned_of(start, authority):
    server = start(certificate=authority.issue("expired", days=-1), is_ready=False)
    wait_for(lambda: "listens on https" in server.log())
    assert "has expired" in server.log()


# ---- reload ----

def test_reload(start, authority, tmp_path):
    first, second, third = (authority.issue(name) for name in ("first", "second", "third"))
    used = authority.issue("used")
    for source, target in ((first.cert, used.cert), (first.key, used.key)):
        shutil.copy(source, target)
    server = start(certificate=used)
    assert subject(server) == "first"
    with socket.create_connection(("127.0.0.1", server.port)) as s, \
            trust(server).wrap_socket(s, server_hostname="127.0.0.1") as old:
        # Garbage: the one in use stays, and the log says so, once.
        used.cert.write_text("nonsense")
        wait_for(lambda: "the certificate in use stays" in server.log())
        assert subject(server) == "first"
        # Files that change are read again by themselves; one after the other, as tools do it.
        shutil.copy(second.cert, used.cert)
        time.sleep(1.2)
        assert subject(server) == "first"
        shutil.copy(second.key, used.key)
        wait_for(lambda: subject(server) == "second")
        # On SIGHUP, too, even when they look unchanged.
        count = server.log().count("was read again")
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: server.log().count("was read again") > count)
        used.key.unlink()
        wait_for(lambda: "No such file" in server.log())
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: server.log().count("No such file") == 2)
        assert subject(server) == "second"
        shutil.copy(third.cert, used.cert)
        shutil.copy(third.key, used.key)
        wait_for(lambda: subject(server) == "third")
        # A connection from before goes on.
        old.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert old.recv(4096).startswith(b"HTTP/1.1 200 ")
    metrics = server.request("GET", "/metrics").text
    assert "themis_tls_certificate_failures_total" in metrics
    expires = float(metrics.split("\nthemis_tls_certificate_expires_seconds ")[1].split()[0])
    assert 0 < expires - time.time() < 2 * 86400


def test_hangup_without_tls(start):
    server = start()
    server.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "no certificate to read again" in server.log())
    assert server.request("GET", "/livez").status_code == 200


# ---- peers that misbehave ----

def test_plain_http(server):
    answer = requests.get(server.url.replace("https", "http") + "/livez", timeout=30)
    assert answer.status_code == 400
    assert "https://" in answer.json()["errorMessage"]


def test_half_open(start, good):
    server = start(certificate=good, settings=["header_timeout_ms=700"])
    silent = [server.connect() for _ in range(50)]
    started = [server.connect() for _ in range(50)]
    for s in started:
        s.sendall(b"\x16\x03\x01\x02\x00\x01\x00")  # the beginning of a greeting
    assert server.request("GET", "/livez").status_code == 200  # others are served meanwhile
    for s in silent + started:
        s.settimeout(30)
        assert s.recv(100) == b""
        s.close()
    assert server.request("GET", "/livez").status_code == 200


def test_garbage(server):
    for bytes_ in (b"\x16\x03\x01\x00\x05hello", b"\x80\x2e\x01\x00\x02" * 20, b"\x00" * 500,
                   b"\x15\x03\x03\x00\x02\x02\x28", b"\x16\x03\x01\xff\xff" + b"x" * 70000):
        with server.connect() as s:
            try:
                s.sendall(bytes_)
                while s.recv(4096):
                    pass
            except ConnectionError:
                pass
    # A sound session that turns to garbage.
    with server.connect() as s:
        tls = trust(server).wrap_socket(s, server_hostname="127.0.0.1")
        tls.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert tls.recv(4096).startswith(b"HTTP/1.1 200 ")
        raw = socket.socket(fileno=tls.detach())
        raw.sendall(b"\x17\x03\x03\x00\x20" + b"y" * 32)
        raw.settimeout(30)
        try:
            while raw.recv(4096):
                pass
        except ConnectionError:
            pass
        raw.close()
    assert server.request("GET", "/livez").status_code == 200
