# SPDX-License-Identifier: Apache-2.0
"""Backups of a node that is written to, restored into a new one; damaged ones are refused."""
import fcntl
import os
import pathlib
import shutil
import threading
import time

import pytest
from arango import ArangoClient
from conftest import cli


def fill(server, count=500):
    server.request("POST", "/_api/collection", json={"name": "things"})
    server.request("POST", "/_api/index?collection=things",
                   json={"type": "persistent", "fields": ["n"], "unique": True})
    server.aql("FOR i IN 1..@n INSERT {_key: CONCAT('k', i), n: i, text: 'x'} INTO things",
               bindVars={"n": count})


def create(server, label="test"):
    answer = server.request("POST", "/_admin/backup/create", json={"label": label})
    assert answer.status_code == 201, answer.text
    return answer.json()["result"]


def folder(server, backup):
    return pathlib.Path(server.data) / "backups" / backup["id"]


def test_a_busy_node_is_restored(start, tmp_path):
    server = start()
    fill(server)
    acknowledged, stop = [], threading.Event()

    def write(writer):
        n = 0
        while not stop.is_set():
            n += 1
            key = f"w{writer}-{n}"
            answer = server.request("POST", "/_api/document/things",
                                    json={"_key": key, "n": 1000 + 4 * n + writer})
            assert answer.status_code == 202, answer.text
            acknowledged.append(key)

    writers = [threading.Thread(target=write, args=(i,)) for i in range(4)]
    for thread in writers:
        thread.start()
    while len(acknowledged) < 100:
        time.sleep(0.01)
    before = list(acknowledged)
    backup = create(server)
    stop.set()
    for thread in writers:
        thread.join()
    assert backup["nrFiles"] > 2 and backup["sizeInBytes"] > 0
    last = server.request("GET", "/_api/document/things/k1").json()
    cli(server, "restore", folder(server, backup), tmp_path / "restored")
    server.kill()

    new = start(data="restored")
    assert new.request("GET", "/_api/document/things/k1").json() == last
    keys = set(new.rows("FOR d IN things RETURN d._key"))
    assert set(before) <= keys <= set(acknowledged) | {f"k{i}" for i in range(1, 501)}
    assert new.request("GET", "/_api/collection/things/count").json()["count"] == len(keys)
    by_index = new.rows("FOR d IN things FILTER d.n >= 0 SORT d.n RETURN d._key")
    assert sorted(by_index) == sorted(keys)
    assert new.request("POST", "/_api/document/things", json={"n": 1}).status_code == 409
    assert new.request("POST", "/_api/document/things", json={"n": -1}).status_code == 202


def damage_byte(backup):
    victim = max(backup.glob("data/rocks/*.sst"), key=lambda p: p.stat().st_size)
    copy = victim.read_bytes()
    victim.unlink()  # it is a hard link into the store
    victim.write_bytes(copy[:100] + bytes([copy[100] ^ 1]) + copy[101:])
    return victim.name


def damage_length(backup):
    victim = next(backup.glob("data/rocks/MANIFEST-*"))
    copy = victim.read_bytes()
    victim.unlink()
    victim.write_bytes(copy[:-1])
    return victim.name


def damage_missing(backup):
    victim = next(backup.glob("data/rocks/*.sst"))
    victim.unlink()
    return victim.name


def damage_added(backup):
    (backup / "data/rocks/999999.sst").write_bytes(b"x")
    return "999999.sst"


def damage_link(backup):
    victim = backup / "data/acknowledged"
    victim.unlink()
    victim.symlink_to("/etc/hostname")
    return "acknowledged"


def damage_manifest(backup):
    file = backup / "manifest.json"
    file.write_text(file.read_text().replace('"data/', '"data/../../../', 1))
    return "manifest.json"


def damage_no_manifest(backup):
    (backup / "manifest.json").unlink()
    return "manifest.json"


def test_damaged_ones_are_refused(start, tmp_path):
    server = start()
    fill(server)
    whole = folder(server, create(server))
    for damage in (damage_byte, damage_length, damage_missing, damage_added, damage_link,
                   damage_manifest, damage_no_manifest):
        bad = tmp_path / damage.__name__
        shutil.copytree(whole, bad, symlinks=True)
        name = damage(bad)
        done = cli(server, "restore", bad, tmp_path / "target", status=1)
        assert name in done.stderr, damage.__name__
        assert not (tmp_path / "target").exists() and not (tmp_path / "target.part").exists()
    cli(server, "restore", whole, tmp_path / "target")


def test_what_a_crash_left_is_removed(start):
    """Hard links in it keep files of the store on the disk."""
    server = start()
    fill(server)
    backups = pathlib.Path(server.data) / "backups"
    for name in ("2026-01-01T00.00.00Z_left.part", "2026-01-01T00.00.00Z_held.part", "mine.part"):
        (backups / name / "data").mkdir(parents=True)
        (backups / name / "data/x").write_text("x")
    held = os.open(backups / "2026-01-01T00.00.00Z_held.part", os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)  # as another node does that works there
    made = create(server)
    assert sorted(path.name for path in backups.iterdir()) == sorted(
        [made["id"], "2026-01-01T00.00.00Z_held.part", "mine.part"])
    os.close(held)
    again = create(server, "again")
    assert {path.name for path in backups.iterdir()} == {made["id"], again["id"], "mine.part"}
    listed = server.request("POST", "/_admin/backup/list", json={}).json()["result"]["list"]
    assert set(listed) == {made["id"], again["id"]}


def test_a_restored_store_can_be_checked_before_its_first_start(start, tmp_path):
    server = start()
    fill(server)
    cli(server, "restore", folder(server, create(server)), tmp_path / "restored")
    assert "500 documents" in cli(server, "check", tmp_path / "restored").stdout
    cli(server, "check", tmp_path, status=1)


def test_the_target_must_be_new(start, tmp_path):
    server = start()
    backup = folder(server, create(server))
    done = cli(server, "restore", backup, server.data, status=1)
    assert "not an empty directory" in done.stderr
    (tmp_path / "empty").mkdir()
    cli(server, "restore", str(backup) + "/", tmp_path / "empty")
    cli(server, "restore", tmp_path / "nothing", tmp_path / "other", status=1)
    cli(server, "restore", backup, status=2)


def test_the_driver_and_the_shell(start):
    server = start()
    fill(server, 10)
    client = ArangoClient(hosts=server.url)
    db = client.db("_system", username="root", password="")
    made = db.backup.create(label="driver", allow_inconsistent=False, force=False, timeout=10)
    assert made["backup_id"].endswith("_driver")
    shown = db.backup.get()["list"]
    assert list(shown) == [made["backup_id"]] and shown[made["backup_id"]]["available"]
    assert made["backup_id"] in cli(server, "backup", "--list").stdout
    assert "_by-shell" in cli(server, "backup", "by-shell").stdout
    assert db.backup.delete(made["backup_id"]) is True
    left = db.backup.get()["list"]
    assert len(left) == 1 and next(iter(left)).endswith("_by-shell")
    cli(server, "backup", "--delete", next(iter(left)))
    assert cli(server, "backup", "--list").stdout == ""
    client.close()


def test_bad_names(start):
    server = start()
    for label in ("", "../up", "a/b", ".hidden", "x" * 65, "a b"):
        answer = server.request("POST", "/_admin/backup/create", json={"label": label})
        assert answer.status_code == (201 if label == "" else 400), label
    for path, status in (("delete", 400), ("list", 400)):
        for name in ("../data", "x/../../y", "2026-01-01T00.00.00Z_../x"):
            answer = server.request("POST", f"/_admin/backup/{path}", json={"id": name})
            assert answer.status_code == status, name
    absent = {"id": "2026-01-01T00.00.00Z_nothing"}
    assert server.request("POST", "/_admin/backup/delete", json=absent).status_code == 404
    assert server.request("POST", "/_admin/backup/list", json=absent).status_code == 404
    assert server.request("POST", "/_admin/backup/create", json={"lable": "x"}).status_code == 400
    assert server.request("POST", "/_admin/backup/restore", json=absent).status_code == 501


@pytest.mark.parametrize("delay_ms", [0, 5, 20, 60, 150])
def test_a_crash_leaves_no_half_backup(start, delay_ms):
    server = start()
    fill(server, 5000)
    thread = threading.Thread(target=lambda: quiet(server, "/_admin/backup/create", {"label": "cut"}))
    thread.start()
    time.sleep(delay_ms / 1000)
    server.kill()
    thread.join()
    server = start()
    for name, shown in server.request("POST", "/_admin/backup/list", json={}).json()["result"]["list"].items():
        assert shown["available"], name
    create(server, "after")
    assert server.request("GET", "/_api/collection/things/count").json()["count"] == 5000


def quiet(server, path, body):
    try:
        server.request("POST", path, json=body)
    except OSError:
        pass
