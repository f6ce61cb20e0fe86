// SPDX-License-Identifier: Apache-2.0
// The real arangojs against a node. Run by test_arangojs.py with the node's URL.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { test } from "node:test";

const require = createRequire(process.env.NODE_CLIENTS + "/");
const { aql, Database } = require("arangojs");

const url = process.env.THEMIS_URL;
const system = new Database({ url, auth: { username: "root", password: "root password" } });
const name = "js_" + Date.now();
let db;

const fails = (promise, errorNum, code) =>
  assert.rejects(promise, (e) => {
    assert.equal(e.errorNum, errorNum, String(e));
    if (code) assert.equal(e.code, code, String(e));
    return true;
  });

test("a database comes and goes", async () => {
  assert.match((await system.version()).version, /^3\.12\./);
  assert.equal((await system.version(true)).details.name, "themis");
  db = await system.createDatabase(name, { users: [{ username: "ann", passwd: "pw" }] });
  assert.ok((await system.listDatabases()).includes(name));
  assert.ok((await system.listUserDatabases()).includes(name));
  assert.ok(await db.exists());
  assert.equal((await db.get()).name, name);
  assert.equal(await system.database("nowhere").exists(), false);
  await fails(system.createDatabase(name), 1207, 409);
  assert.equal((await system.engine()).name, "rocksdb");
  assert.equal(typeof (await system.time()), "number");
});

test("collections with their metadata", async () => {
  const made = await db.createCollection("things", { waitForSync: true });
  assert.ok(await made.exists());
  assert.equal((await made.get()).type, 2);
  const properties = await made.properties();
  assert.equal(properties.waitForSync, true);
  assert.equal((await made.properties({ waitForSync: false })).waitForSync, false);
  assert.equal((await made.count()).count, 0);
  assert.ok((await made.figures()).figures);
  assert.ok((await made.figures(true)).figures.engine);
  assert.equal(typeof (await made.revision()).revision, "string");
  assert.equal((await made.checksum({ withData: true, withRevisions: true })).checksum, "0");
  await made.recalculateCount();
  await made.loadIndexes();
  await made.compact();
  await made.truncate();
  await made.rename("renamed");
  assert.equal(made.name, "renamed");
  assert.ok((await db.listCollections()).some((c) => c.name === "renamed"));
  assert.ok((await db.listCollections(false)).some((c) => c.name.startsWith("_") || c.name === "renamed"));
  await made.drop();
  assert.equal(await made.exists(), false);
  await fails(made.get(), 1203, 404);
  await db.createEdgeCollection("knows");
});

test("documents one by one", async () => {
  const people = await db.createCollection("people");
  const made = await people.save({ _key: "ann", age: 36 }, { returnNew: true, waitForSync: true });
  assert.equal(made.new.age, 36);
  assert.ok(await people.documentExists("ann"));
  assert.equal(await people.documentExists("bob"), false);
  assert.equal((await people.document("ann")).age, 36);
  assert.equal(await people.document("bob", true), null);
  await fails(people.document("bob"), 1202, 404);
  await fails(people.save({ _key: "ann" }), 1210, 409);
  await people.save({ _key: "ann", n: 1 }, { overwriteMode: "update" });
  const changed = await people.update("ann", { age: 37, n: null }, { returnOld: true, returnNew: true, keepNull: false });
  assert.deepEqual([changed.old.age, changed.new.age, "n" in changed.new], [36, 37, false]);
  await fails(people.update("ann", { age: 1 }, { ifMatch: made._rev }), 1200, 412);
  await fails(people.document("ann", { ifMatch: made._rev }), 1200, 412);
  await fails(people.replace("ann", { _rev: made._rev }, { ignoreRevs: false }), 1200, 412);
  await people.replace("ann", { only: 1 });
  assert.equal((await people.document("ann")).age, undefined);
  const gone = await people.remove("ann", { returnOld: true });
  assert.equal(gone.old.only, 1);
  await fails(people.remove("ann"), 1202, 404);
});

test("documents in arrays", async () => {
  const people = db.collection("people");
  const made = await people.saveAll([{ _key: "a" }, { _key: "b" }, { _key: "a" }], { returnNew: true });
  assert.deepEqual(made.map((m) => m.errorNum ?? m._key), ["a", "b", 1210]);
  assert.deepEqual((await people.documents(["a", "x"])).map((m) => m.errorNum ?? m._key), ["a", 1202]);
  const updated = await people.updateAll([{ _key: "a", n: 1 }, { _key: "x" }]);
  assert.deepEqual(updated.map((m) => m.errorNum ?? m._key), ["a", 1202]);
  await people.replaceAll([{ _key: "b", m: 1 }]);
  assert.deepEqual((await people.removeAll(["a", "b", "x"])).map((m) => m.errorNum ?? m._key), ["a", "b", 1202]);
});

test("import in its forms", async () => {
  const people = db.collection("people");
  const objects = await people.import([{ _key: "i1" }, { _key: "i2" }, { _key: "i1" }], { details: true });
  assert.deepEqual([objects.created, objects.errors, objects.details.length], [2, 1, 1]);
  const table = await people.import([["_key", "n"], ["i3", 1], ["i4", 2]]);
  assert.equal(table.created, 2);
  const lines = await people.import('{"_key":"i5"}\n{"_key":"i1","n":5}\n', { type: "documents", onDuplicate: "replace" });
  assert.deepEqual([lines.created, lines.updated], [1, 1]);
  await fails(people.import([{ _key: "i6" }, { _key: "i1" }], { complete: true }), 1210, 409);
  assert.equal((await people.import([{ _key: "only" }], { overwrite: true })).created, 1);
  assert.equal((await people.count()).count, 1);
});

test("queries, batches and their errors", async () => {
  const people = db.collection("people");
  await people.truncate();
  await people.saveAll([...Array(25).keys()].map((i) => ({ _key: "k" + i, i })));
  const cursor = await db.query(aql`FOR p IN ${people} FILTER p.i < ${20} SORT p.i RETURN p.i`, { batchSize: 3, count: true });
  assert.equal(cursor.count, 20);
  assert.deepEqual(await cursor.all(), [...Array(20).keys()]);
  const open = await db.query("FOR i IN 1..10 RETURN i", {}, { batchSize: 2 });
  assert.equal(await open.next(), 1);
  await open.kill();
  await fails(db.query("FOR x IN"), 1501, 400);
  await fails(db.query("RETURN @a"), 1551, 400);
  const plan = await db.explain(aql`FOR p IN ${people} RETURN p`);
  assert.equal(plan.plan.nodes[0].type, "SingletonNode");
  assert.ok((await db.parse("FOR p IN people RETURN p")).collections.includes("people"));
});

test("indexes", async () => {
  const people = db.collection("people");
  const made = await people.ensureIndex({ type: "persistent", fields: ["i"], unique: true, name: "by_i" });
  assert.equal(made.isNewlyCreated, true);
  assert.equal((await people.ensureIndex({ type: "persistent", fields: ["i"], unique: true })).isNewlyCreated, false);
  assert.equal((await people.index("by_i")).id, made.id);
  assert.deepEqual((await people.indexes()).map((x) => x.type), ["primary", "persistent"]);
  await fails(people.save({ i: 1 }), 1210, 409);
  await people.dropIndex("by_i");
  await fails(people.index("by_i"), 1212, 404);
});

test("edges", async () => {
  const knows = db.collection("knows");
  const edge = await knows.save({ _from: "people/k1", _to: "people/k2" });
  assert.equal((await knows.document(edge._key))._to, "people/k2");
  await fails(knows.save({}), 1233, 400);
});

test("users and what they may do", async () => {
  const ann = new Database({ url, databaseName: name, auth: { username: "ann", password: "pw" } });
  assert.equal((await ann.get()).name, name);
  assert.equal((await system.getUser("ann")).user, "ann");
  assert.ok((await system.listUsers()).some((u) => u.user === "ann"));
  assert.equal(await system.getUserAccessLevel("ann", { database: name }), "rw");
  await system.setUserAccessLevel("ann", { database: name, collection: db.collection("people"), grant: "none" });
  await fails(ann.collection("people").document("k1"), 11, 403);
  await fails(ann.query("FOR p IN people RETURN p"), 11, 403);
  await system.clearUserAccessLevel("ann", { database: name, collection: db.collection("people") });
  assert.equal((await ann.collection("people").document("k1")).i, 1);
  assert.ok(name in (await system.getUserDatabases("ann")));
  await system.createUser("bob", { passwd: "x", extra: { a: 1 } });
  await fails(system.createUser("bob", { passwd: "x" }), 1702, 409);
  await system.updateUser("bob", { active: false });
  assert.equal((await system.getUser("bob")).active, false);
  await system.replaceUser("bob", { passwd: "y" });
  await system.removeUser("bob");
  await fails(system.getUser("bob"), 1703, 404);
});

test("tokens", async () => {
  const login = new Database({ url, databaseName: name });
  assert.match(await login.login("ann", "pw"), /^eyJ/);
  assert.equal((await login.get()).name, name);
  assert.match(await login.renewAuthToken(), /^eyJ/);
  assert.equal((await login.get()).name, name);
  await fails(login.login("ann", "wrong"), 401, 401);
});

test("the database goes", async () => {
  await system.removeUser("ann");
  await system.dropDatabase(name);
  assert.ok(!(await system.listDatabases()).includes(name));
});
