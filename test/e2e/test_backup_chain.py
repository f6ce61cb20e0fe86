# SPDX-License-Identifier: Apache-2.0
"""Incremental backups, and restoring to a commit or a time; chains with a fault are refused by name."""
import json
import pathlib
import random
import shutil
import subprocess
import threading
import time

from conftest import cli, program


def create(server, status=201, **body):
    answer = server.request("POST", "/_admin/backup/create", json=body)
    assert answer.status_code == status, answer.text
    return answer.json().get("result") or answer.json()


def folder(server, backup):
    return pathlib.Path(server.data) / "backups" / backup["id"]


def dump(server):
    """All that a client can see of the database, and each index against a scan."""
    state = {}
    for c in server.request("GET", "/_api/collection").json()["result"]:
        name = c["name"]
        documents = {d["_key"]: d for d in server.rows(f"FOR d IN `{name}` RETURN d")}
        assert server.request("GET", f"/_api/collection/{name}/count").json()["count"] == len(documents)
        indexes = server.request("GET", f"/_api/index?collection={name}").json()["indexes"]
        for index in indexes:
            if index["type"] == "persistent":
                field = index["fields"][0]
                found = server.rows(f"FOR d IN `{name}` OPTIONS {{indexHint: '{index['name']}', forceIndexHint: true}} "
                                    f"FILTER d.`{field}` >= 0 RETURN d._key")
                assert sorted(found) == sorted(k for k, d in documents.items()
                                               if isinstance(d.get(field), (int, str, list, dict)))
        state[name] = (c["id"], c["type"], documents, sorted((i["id"], i["type"]) for i in indexes))
    return state


def make(server):
    for name, kind in (("things", 2), ("links", 3)):
        server.request("POST", "/_api/collection", json={"name": name, "type": kind})
    server.request("POST", "/_api/index?collection=things",
                   json={"type": "persistent", "fields": ["n"], "name": "by_n"})
    write(server, 0)


def write(server, seed):
    """A little of everything."""
    rng = random.Random(seed)
    server.aql("FOR i IN 1..20 INSERT {_key: CONCAT('k', i), n: i + @seed} INTO things "
               "OPTIONS {overwriteMode: 'replace'}", bindVars={"seed": seed})
    server.request("DELETE", f"/_api/document/things/k{rng.randrange(1, 20)}")
    server.request("POST", "/_api/document/links?overwriteMode=replace",
                   json={"_key": f"l{rng.randrange(4)}", "_from": f"things/{seed}", "_to": "things/k2"})
    name = f"c{seed % 3}"
    if seed % 3 == 1:
        server.request("POST", "/_api/collection", json={"name": name})
        server.aql(f"FOR i IN 1..5 INSERT {{n: i}} INTO {name}")
        server.request("POST", f"/_api/index?collection={name}", json={"type": "persistent", "fields": ["n"]})
    elif seed % 3 == 2:
        server.request("PUT", "/_api/collection/c1/truncate")
        server.request("POST", "/_api/document/c1", json={"n": seed})
        server.request("PUT", "/_api/collection/c1/rename", json={"name": f"renamed{seed}"})
    else:
        server.request("DELETE", f"/_api/collection/renamed{seed - 1}")


def last(server):
    return server.request("GET", "/_api/changes/state").json()["last"]


def now():
    time.sleep(0.03)
    text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at := time.time()))
    return f"{text}.{int(at % 1 * 1e6):06d}Z"


def restore(server, backup, target, *words, status=0):
    source = backup if isinstance(backup, pathlib.Path) else folder(server, backup)
    return cli(server, "restore", *words, source, target, status=status)


def check_sound(path):
    done = subprocess.run([program("THEMIS", "build/themis"), "check", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_each_commit_and_time_of_a_chain_can_be_restored(start, tmp_path):
    server = start()
    make(server)
    full = create(server)
    assert not full["incremental"]
    points = []
    for seed in range(1, 7):
        write(server, seed)
        points.append((last(server), now(), dump(server)))
        time.sleep(0.03)
        if seed % 2 == 0:
            made = create(server, incremental=True, label=f"i{seed}")
            assert made["incremental"] and (made["parent"] == full["id"]) == (seed == 2)
    listed = server.request("POST", "/_admin/backup/list", json={}).json()["result"]["list"]
    assert sum(entry["incremental"] for entry in listed.values()) == 3
    assert made["sizeInBytes"] < full["sizeInBytes"]
    write(server, 7)  # not in any backup
    server.kill()
    done = restore(server, made, tmp_path / "newest")
    assert f"up to commit {points[-1][0]}" in done.stdout
    check_sound(tmp_path / "newest")
    new = start(data="newest")
    assert dump(new) == points[-1][2]
    known = {document["_rev"] for _, _, documents, _ in points[-1][2].values() for document in documents.values()}
    for _ in range(20):  # ids go on behind those of the commits that were replayed
        answer = new.request("POST", "/_api/document/things", json={}).json()
        assert answer["_key"] not in points[-1][2]["things"][2] and answer["_rev"] not in known
    ids = {state[0] for point in points for state in point[2].values()}
    assert new.request("POST", "/_api/collection", json={"name": "later"}).json()["id"] not in ids
    new.kill()
    for i in (0, 2, 3):
        for how, until in (("seq", points[i][0]), ("time", points[i][1])):
            target = f"{how}{i}"
            restore(server, made, tmp_path / target, "--until", until)
            new = start(data=target)
            assert dump(new) == points[i][2], target
            new.kill()
    check_sound(tmp_path / "seq2")


def test_points_outside_are_refused(start, tmp_path):
    server = start()
    make(server)
    early, begin = now(), last(server)
    write(server, 1)
    create(server)
    write(server, 2)
    made = create(server, incremental=True)
    end = last(server)
    for until, word in ((begin, "take an older one"), (early, "take an older one"),
                        (end + 1, "take a newer one"), ("2100-01-01T00:00:00Z", "take a newer one")):
        done = restore(server, made, tmp_path / "target", "--until", until, status=1)
        assert word in done.stderr, (until, done.stderr)
        assert not (tmp_path / "target").exists() and not (tmp_path / "target.part").exists()
    for until in ("0", "yesterday", "2026-01-31", "2026-01-31T00:00:00", "-1"):
        restore(server, made, tmp_path / "target", "--until", until, status=2)


def test_chains_with_a_fault_are_refused(start, tmp_path):
    server = start()
    make(server)
    chain = [create(server, label="full")]
    for seed in range(1, 4):
        write(server, seed)
        chain.append(create(server, incremental=True, label=f"part{seed}", parent=chain[-1]["id"]))
    other = create(server, label="other")

    def refused(word, spoil, backup=chain[-1]):
        store = tmp_path / "backups"
        shutil.rmtree(store, ignore_errors=True)
        shutil.copytree(pathlib.Path(server.data) / "backups", store)
        spoil(store)
        done = restore(server, store / backup["id"], tmp_path / "target", status=1)
        assert word in done.stderr, done.stderr
        assert not (tmp_path / "target").exists() and not (tmp_path / "target.part").exists()

    def log_of(store, i):
        return sorted((store / chain[i]["id"] / "log").glob("*.log"))[0]

    def flip(store):
        file = log_of(store, 2)
        data = file.read_bytes()
        file.write_bytes(data[:60] + bytes([data[60] ^ 1]) + data[61:])

    def flip_with_digests(store):
        """The manifests are made to fit: the sums of the commits themselves still tell."""
        flip(store)
        refit(store, 2)

    def cut_with_digests(store):
        file = log_of(store, 3)
        file.write_bytes(file.read_bytes()[:-3])
        refit(store, 3)

    def empty_with_digests(store):
        log_of(store, 2).unlink()
        refit(store, 2)

    def refit(store, i):
        import hashlib
        for n in range(i, len(chain)):
            path = store / chain[n]["id"] / "manifest.json"
            manifest = json.loads(path.read_text())
            files = []
            for row in manifest["files"]:
                file = store / chain[n]["id"] / row["path"]
                if file.exists():
                    files.append({"path": row["path"], "bytes": file.stat().st_size,
                                  "sha256": hashlib.sha256(file.read_bytes()).hexdigest()})
            manifest["files"] = files
            if n > i:
                before = store / chain[n - 1]["id"] / "manifest.json"
                manifest["about"]["parentDigest"] = hashlib.sha256(before.read_bytes()).hexdigest()
            path.write_text(json.dumps(manifest))

    def swap(store):
        shutil.rmtree(store / chain[0]["id"])
        shutil.copytree(store / other["id"], store / chain[0]["id"])

    refused(chain[2]["id"], flip)
    refused("is damaged", flip_with_digests)
    refused("in the middle of a commit", cut_with_digests)
    refused("are missing", empty_with_digests)
    refused(f"goes on from {chain[1]['id']}, which is not in", lambda store: shutil.rmtree(store / chain[1]["id"]))
    refused(f"{chain[0]['id']} is not the backup that", swap)
    refused("manifest.json", lambda store: (store / chain[3]["id"] / "manifest.json").unlink())


def test_what_cannot_be_gone_on_from(start, tmp_path):
    server = start(settings=["change_log_mb=1"])
    make(server)
    assert "full one first" in create(server, status=404, incremental=True)["errorMessage"]
    full = create(server, label="full")
    assert create(server, status=404, parent="2026-01-01T00.00.00Z_no")["errorNum"] == 404
    assert create(server, status=400, parent="../x")["errorNum"] == 10
    step = create(server, label="step", incremental=True)
    answer = server.request("POST", "/_admin/backup/delete", json={"id": full["id"]})
    assert answer.status_code == 409 and step["id"] in answer.json()["errorMessage"]
    restore(server, step, tmp_path / "second")
    second = start(data="second")
    shutil.copytree(folder(server, full), folder(second, full))
    assert "another history" in create(second, status=400, parent=full["id"])["errorMessage"]
    second.kill()
    for i in range(25):
        server.request("PUT", "/_api/document/things/k1", json={"text": random.Random(i).randbytes(60000).hex()})
    answer = create(server, status=410, incremental=True)
    assert answer["errorNum"] == 1415 and "change_log_mb" in answer["errorMessage"]
    assert not list((pathlib.Path(server.data) / "backups").glob("*.part"))
    for backup in (step, full):
        assert server.request("POST", "/_admin/backup/delete", json={"id": backup["id"]}).status_code == 200
    server.kill()
    server = start(settings=["change_log=off"])
    create(server, label="again")
    assert "change_log" in create(server, status=400, incremental=True)["errorMessage"]


def test_increments_of_a_busy_node(start, tmp_path):
    """Every write that was acknowledged before an increment was asked for is in it, and none in part."""
    server = start()
    server.request("POST", "/_api/collection", json={"name": "things"})
    acknowledged, stop = [], threading.Event()

    def writer(number):
        n = 0
        while not stop.is_set():
            n += 1
            pair = [f"w{number}-{n}-a", f"w{number}-{n}-b"]
            answer = server.aql("FOR k IN @pair INSERT {_key: k} INTO things", bindVars={"pair": pair})
            assert not answer["error"]
            acknowledged.append(pair)

    threads = [threading.Thread(target=writer, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    seen, made = [], None
    for i in range(4):
        time.sleep(0.7)
        before = len(acknowledged)
        made = create(server, label=f"b{i}", incremental=i > 0)
        seen.append((made, acknowledged[:before]))
    stop.set()
    for thread in threads:
        thread.join()
    cli(server, "backup", "end", "--incremental")
    assert cli(server, "backup", "--list").stdout.count("incremental") == 4
    server.kill()
    for i in (1, 3):
        made, before = seen[i]
        restore(server, made, tmp_path / f"busy{i}")
        new = start(data=f"busy{i}")
        keys = set(new.rows("FOR d IN things RETURN d._key"))
        assert before and {key for pair in before for key in pair} <= keys
        assert all(key[:-1] + ("b" if key[-1] == "a" else "a") in keys for key in keys)
        new.kill()
    restore(server, pathlib.Path(server.data) / "backups" / max(
        p.name for p in (pathlib.Path(server.data) / "backups").iterdir() if p.name.endswith("_end")), tmp_path / "end")
    new = start(data="end")
    assert set(new.rows("FOR d IN things RETURN d._key")) == {key for pair in acknowledged for key in pair}
