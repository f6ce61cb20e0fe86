# SPDX-License-Identifier: Apache-2.0
"""Damaged files: a clear refusal or a clear error, never a crash, never another document."""
import os
import random
import shutil
import subprocess
import time

import pytest

from conftest import release_server

DAMAGES = int(os.environ.get("THEMIS_DAMAGES", 20))
SEED = int(os.environ.get("THEMIS_CRASH_SEED", time.time_ns() % 1000000))
SETTINGS = ["memtables_mb=8", "block_cache_mb=8"]
COUNT = 3000


def value(i):
    return f"{i} " * (i % 50 + 200)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store with tables and a log, killed; its mark has followed the last commit."""
    from conftest import Server
    server = Server(release_server(), tmp_path_factory.mktemp("damage") / "data", {}, settings=SETTINGS)
    server.wait_ready()
    server.request("POST", "/_api/collection", json={"name": "things"})
    server.request("POST", "/_api/index?collection=things", json={"type": "persistent", "fields": ["n"]})
    for first in range(0, COUNT, 100):
        documents = [{"_key": f"k{i}", "n": i, "text": value(i)} for i in range(first, first + 100)]
        answer = server.request("POST", "/_api/document/things", json=documents)
        assert not any("error" in each for each in answer.json())
        if first == COUNT * 2 // 3:  # what is there goes to tables, what follows to a log
            server.stop()
            server = Server(release_server(), server.data, {}, settings=SETTINGS).wait_ready()
    time.sleep(0.5)
    server.kill()
    assert list((server.data / "rocks").glob("*.sst")) and list((server.data / "rocks").glob("*.log"))
    return server.data


def flip(path, chance):
    content = bytearray(path.read_bytes())
    at = chance.randrange(len(content))
    for i in range(at, min(at + chance.choice([1, 8, 64]), len(content))):
        content[i] ^= chance.randrange(1, 256)
    path.write_bytes(content)


def cut(path, chance):
    os.truncate(path, chance.randrange(path.stat().st_size))


def empty(path, _chance):
    os.truncate(path, 0)


def lose(path, _chance):
    path.unlink()


def is_honest(server):
    """Every document that is read is right; what cannot be read is an error. Returns how many are."""
    right = 0
    for first in range(0, COUNT, 100):
        answer = server.request("PUT", "/_api/document/things?onlyget=true",
                                json=[f"k{i}" for i in range(first, first + 100)])
        if answer.status_code != 200:
            assert answer.json()["errorMessage"], answer.text
            continue
        for i, document in enumerate(answer.json(), first):
            if not document.get("error"):
                assert document["n"] == i and document["text"] == value(i), i
                right += 1
    return right


def outcome(start, data):
    """(server or None, log): it serves, or has refused with one clear sentence."""
    server = start({}, binary=release_server(), data=data, settings=SETTINGS, is_ready=False)
    end = time.monotonic() + 60
    while server.is_alive() and "listens on" not in server.log():
        assert time.monotonic() < end
        time.sleep(0.01)
    if server.is_alive():
        return server.wait_ready(), server.log()
    assert server.process.returncode == 1, f"status {server.process.returncode}\n{server.log()}"
    assert "themisd: " in server.log(), server.log()
    return None, server.log()


@pytest.mark.parametrize("harm", [flip, cut, empty, lose])
def test_damaged_table(start, store, tmp_path, harm):
    chance, refused = random.Random(SEED), 0
    for number in range(DAMAGES):
        data = tmp_path / f"data{number}"
        shutil.copytree(store, data)
        table = chance.choice(sorted((data / "rocks").glob("*.sst")))
        harm(table, chance)
        done = subprocess.run([release_server(), "--check", "--data", data], capture_output=True, text=True,
                              timeout=120)
        assert done.returncode in (0, 1), f"{table.name}: status {done.returncode}\n{done.stdout}{done.stderr}"
        server, _ = outcome(start, data.name)
        if server is None:
            assert done.returncode == 1, "the check found nothing, yet it does not start"
            refused += 1
        else:
            if done.returncode == 0:  # a part of the file that holds no data
                assert is_honest(server) == COUNT
            else:
                is_honest(server)
            server.stop()
        shutil.rmtree(data)
    print(f"{harm.__name__}: {refused} of {DAMAGES} refused")


@pytest.mark.parametrize("harm", [flip, cut])
def test_damaged_log(start, store, tmp_path, harm):
    """Either all that was acknowledged is there, or the start says what is not."""
    chance, refused = random.Random(SEED), 0
    for number in range(DAMAGES):
        data = tmp_path / f"data{number}"
        shutil.copytree(store, data)
        harm(max((data / "rocks").glob("*.log"), key=lambda path: path.stat().st_size), chance)
        server, log = outcome(start, data.name)
        if server is None:
            assert "--accept-loss" in log and "acknowledged" in log, log
            refused += 1
            server = start({}, binary=release_server(), data=data.name, settings=SETTINGS,
                           flags=["--accept-loss"])
            assert is_honest(server) < COUNT
        else:
            assert is_honest(server) == COUNT
        server.stop()
        done = subprocess.run([release_server(), "--check", "--data", data], capture_output=True, text=True,
                              timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        shutil.rmtree(data)
    print(f"{harm.__name__}: {refused} of {DAMAGES} refused")
