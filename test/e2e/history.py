# SPDX-License-Identifier: Apache-2.0
"""
Was a history of concurrent transactions serializable? From what clients saw alone, by the method of
Elle (Kingsbury and Alvaro, "Elle: Inferring Isolation Anomalies from Experimental Observations").

Objects are such that what is read tells what was written before, and in which order:

  lists      "append" adds a value that nobody else adds; "list" reads the whole list. The longest
             list that anybody read is the order of its versions.
  registers  "write" sets a value that nobody else sets, in a transaction that has read the register
             before; so each version names the one before. "value" reads it (None: never set).
  sets       "insert" adds a row of a group; "set" is a predicate read, the rows of the group. Rows
             are never removed: a row that was read came before, one that was not comes after.

Between transactions this makes the dependencies of Adya: ww (the next version), wr (read what the
other wrote) and rw (read what the other overwrote; a row that appears later is the phantom of a
predicate read). A cycle of them is an anomaly:

  G0 of ww alone; G1c of ww and wr; G-single with one rw (lost update, read skew);
  G2 with several (write skew, phantoms)

and with the suffix -realtime it needs the order of clocks as well: one transaction had ended before
another began. Without any cycle the history is strictly serializable. Besides: G1a (read what was
aborted), G1b (read what its writer overwrote), internal (own writes are not read back),
incompatible-order (two reads that no order of writes explains), garbage, duplicate, lost-update,
lost (acknowledged and not in a later read).

A transaction whose outcome is unknown counts as committed if somebody has read what it wrote.
"""
import collections

WW, WR, RW, RT = 1, 2, 4, 8
NAMES = {WW: "ww", WR: "wr", RW: "rw", RT: "realtime"}
WRITES = {"append": "list", "write": "value", "insert": "set"}
READS = {"list": "list", "value": "value", "set": "set"}
OWN = object()  # a read that saw only what its transaction had written


class Transaction:
    """ops: (kind, key, value) in order; a read carries what was read. status: ok, fail or info."""

    def __init__(self, ops, status="ok", begin=0, end=0):
        self.ops, self.status, self.begin, self.end = ops, status, begin, end

    def __repr__(self):
        return f"[{self.status} {self.begin}-{self.end} " + " ".join(
            f"{kind}({key},{brief(value)})" for kind, key, value in self.ops) + "]"


def brief(value):
    if not isinstance(value, (list, tuple, set, frozenset)):
        return value
    shown = list(map(str, value if isinstance(value, (list, tuple)) else sorted(value)))
    return "[" + " ".join(shown if len(shown) < 8 else ["...", *shown[-6:]]) + "]"


class Anomaly:
    def __init__(self, name, text):
        self.name, self.text = name, text

    def __repr__(self):
        return f"{self.name}: {self.text}"


def check(transactions):
    """The anomalies of a history; of cycles at most one of each name, a shortest one."""
    return Checker(transactions).run()


def names(anomalies):
    return {anomaly.name for anomaly in anomalies}


class Checker:
    def __init__(self, transactions):
        self.all = transactions
        self.anomalies = []
        self.writer = {}            # (type, key, value) -> transaction
        self.is_final = {}          # the same -> the writer's last write of that key
        self.edges = collections.defaultdict(dict)  # from -> to -> kinds, or-ed
        self.by_key = collections.defaultdict(list)  # (type, key) -> [(what, writer)]

    def report(self, name, text):
        self.anomalies.append(Anomaly(name, text))

    def run(self):
        self.index_writes()
        self.find_committed()
        reads = self.external_reads()
        self.order_lists(reads)
        self.order_registers(reads)
        self.order_sets(reads)
        self.order_time()
        self.find_cycles()
        return self.anomalies

    # ---- who wrote what ----

    def index_writes(self):
        for t in self.all:
            last = {}
            for kind, key, value in t.ops:
                if kind not in WRITES:
                    continue
                what = (WRITES[kind], key, value)
                if what in self.writer:
                    raise ValueError(f"{what} is written twice: such a history cannot be checked")
                self.writer[what] = t
                self.by_key[what[:2]].append((what, t))
                if kind != "insert" and (kind, key) in last:
                    self.is_final[last[(kind, key)]] = False
                last[(kind, key)] = what
                self.is_final[what] = True

    def values_read(self, t):
        for kind, key, value in t.ops:
            if kind in ("list", "set"):
                yield from ((kind, key, one) for one in value)
            elif kind == "value" and value is not None:
                yield kind, key, value

    def find_committed(self):
        """ok, and of unknown outcome when another saw its writes."""
        self.committed = [t for t in self.all if t.status == "ok"]
        todo = list(self.committed)
        known = set(map(id, todo))
        while todo:
            for what in self.values_read(todo.pop()):
                writer = self.writer.get(what)
                if writer and writer.status == "info" and id(writer) not in known:
                    known.add(id(writer))
                    self.committed.append(writer)
                    todo.append(writer)
        self.is_committed = known

    # ---- what was read of others ----

    def external_reads(self):
        """(type, key) -> [(transaction, what it saw of others, was it before its own writes)]."""
        reads = collections.defaultdict(list)
        for t in self.committed:
            own, seen = collections.defaultdict(list), {}
            for kind, key, value in t.ops:
                if kind in WRITES:
                    own[(WRITES[kind], key)].append(value)
                    continue
                where = (kind, key)
                outside = self.without_own(t, kind, key, value, own[where])
                if outside is OWN:
                    continue
                if where in seen and seen[where] != outside:
                    self.report("internal", f"{key} read as {seen[where]}, then as {outside} in {t}")
                    continue
                if where not in seen:
                    seen[where] = outside
                    if self.is_readable(t, kind, key, outside):
                        reads[where].append((t, outside))
        return reads

    def without_own(self, t, kind, key, value, own):
        """What a read saw of others. OWN: nothing, or an anomaly that was reported."""
        if kind == "value":
            if own and value != own[-1]:
                self.report("internal", f"{key} was written as {own[-1]} and read as {value} in {t}")
            return OWN if own else value
        if kind == "set":
            value = frozenset(value)
            if not value.issuperset(own):
                self.report("internal", f"rows {sorted(set(own) - value)} of {key} are missing in {t}")
            return value.difference(own)
        value = tuple(value)
        if own and value[-len(own):] != tuple(own):
            self.report("internal", f"{key} read as {value} after own appends {own} in {t}")
            return OWN
        return value[:len(value) - len(own)]

    def is_readable(self, t, kind, key, seen):
        values = seen if kind != "value" else () if seen is None else (seen,)
        is_fine = True
        if len(set(values)) != len(values):
            self.report("duplicate", f"{key} read as {seen} in {t}")
            is_fine = False
        for value in values:
            writer = self.writer.get((kind, key, value))
            if writer is None:
                self.report("garbage", f"{value} of {key} was written by nobody and read in {t}")
                is_fine = False
            elif writer.status == "fail":
                self.report("G1a", f"{value} of {key}: {writer} was aborted and is read in {t}")
                is_fine = False
        last = values[-1:] if kind == "list" else values if kind == "value" else ()
        for value in last:
            if not self.is_final.get((kind, key, value), True) and self.writer[(kind, key, value)] is not t:
                self.report("G1b", f"{value} of {key} was overwritten in {self.writer[(kind, key, value)]} "
                                   f"and is read in {t}")
                is_fine = False
        return is_fine

    # ---- dependencies ----

    def edge(self, a, b, kind):
        if a is not b and id(b) in self.is_committed and id(a) in self.is_committed:
            known = self.edges[a]
            known[b] = known.get(b, 0) | kind

    def versions(self, kind, key, chain, readers):
        """chain: [None, value, value...], of which version n was read by readers[n]."""
        writers = [self.writer.get((kind, key, value)) for value in chain]
        for n in range(len(chain)):
            for reader in readers.get(n, ()):
                if n:
                    self.edge(writers[n], reader, WR)
                for after in range(n + 1, len(chain)):
                    if writers[after] is not reader:
                        self.edge(reader, writers[after], RW)
                        break
            if n > 1:
                self.edge(writers[n - 1], writers[n], WW)

    def order_lists(self, reads):
        for (kind, key), seen in reads.items():
            if kind != "list":
                continue
            longest = max((value for _, value in seen), key=len)
            readers = collections.defaultdict(list)
            for t, value in seen:
                if value != longest[:len(value)]:
                    self.report("incompatible-order", f"{key} was read as {value} and as {longest}")
                else:
                    readers[len(value)].append(t)
            self.versions(kind, key, [None, *longest], readers)
            self.order_unread(key, longest, readers[len(longest)])
            self.find_lost(kind, key, set(longest), seen)

    def order_unread(self, key, longest, readers):
        """Values that no read shows come behind all that one does, in an order that is not known."""
        for (kind, _, value), writer in self.by_key[("list", key)]:
            if id(writer) in self.is_committed and value not in longest:
                for reader in readers:
                    self.edge(reader, writer, RW)
                if longest:
                    self.edge(self.writer[(kind, key, longest[-1])], writer, WW)

    def order_registers(self, reads):
        following = collections.defaultdict(dict)  # key -> version -> the next one
        loose = collections.defaultdict(list)  # key -> versions of unknown transactions; nobody was told what they replaced
        for t in self.committed:
            read, written = {}, {}
            for kind, key, value in t.ops:
                if kind == "value" and key not in read and key not in written:
                    read[key] = value
                elif kind == "write":
                    if key not in read and t.status == "info":
                        loose[key].append(value)
                        continue
                    if key not in read:
                        raise ValueError(f"register {key} is written without being read: {t}")
                    written[key] = value
            for key, value in written.items():
                other = following[key].get(read[key])
                if other is not None:
                    self.report("lost-update", f"{key} was {read[key]} for both {t} and "
                                               f"{self.writer[('value', key, other)]}")
                else:
                    following[key][read[key]] = value
        for key in {key for kind, key in reads if kind == "value"} | following.keys():
            chain, next_ = [None], following[key]
            places = list(loose[key]) if len(loose[key]) == 1 else []  # the one fits in the one gap
            while chain[-1] in next_ or places:
                chain.append(next_[chain[-1]] if chain[-1] in next_ else places.pop())
            at = {value: n for n, value in enumerate(chain)}
            readers = collections.defaultdict(list)
            for t, value in reads.get(("value", key), ()):
                if value in at:
                    readers[at[value]].append(t)
                elif len(loose[key]) < 2:  # else the order is not known
                    self.report("incompatible-order", f"{key} was read as {value}, which does not follow from "
                                                      f"what others wrote, in {t}")
            self.versions("value", key, chain, readers)

    def order_sets(self, reads):
        rows = collections.defaultdict(list)
        for (kind, key, value), writer in self.writer.items():
            if kind == "set" and id(writer) in self.is_committed:
                rows[key].append((value, writer))
        for (kind, key), seen in reads.items():
            if kind != "set":
                continue
            for t, values in seen:
                for value, writer in rows[key]:
                    if value in values:
                        self.edge(writer, t, WR)
                    else:
                        self.edge(t, writer, RW)
            self.find_lost(kind, key, set().union(*(values for _, values in seen)), seen)

    def find_lost(self, kind, key, found, seen):
        last = max((t for t, _ in seen), key=lambda t: t.begin)
        for (_, _, value), writer in self.by_key[(kind, key)]:
            if writer.status == "ok" and value not in found and writer.end < last.begin:
                self.report("lost", f"{value} of {key}, acknowledged in {writer}, is missing in {last}")

    def order_time(self):
        """Edges from those that ended last before a begin; the others follow from these."""
        events = []
        for t in self.committed:
            events.append((t.begin, False, t))
            if t.status == "ok":
                events.append((t.end, True, t))
        frontier, before = {}, {}
        for _, is_end, t in sorted(events, key=lambda event: event[:2]):
            if is_end:
                for earlier in before[id(t)]:
                    frontier.pop(earlier, None)
                frontier[id(t)] = t
            else:
                before[id(t)] = list(frontier)
                for earlier in frontier.values():
                    self.edge(earlier, t, RT)

    # ---- cycles ----

    def find_cycles(self):
        """Looks for kinds only where there is some cycle; mostly there is none."""
        cyclic = {t for group in components(self.edges, WW | WR | RW | RT) for t in group}
        self.edges = {a: {b: kinds for b, kinds in self.edges[a].items() if b in cyclic} for a in cyclic}
        for suffix, time in (("", 0), ("-realtime", RT)):
            self.find_cycle("G0" + suffix, WW | time)
            self.find_cycle("G1c" + suffix, WW | WR | time)
            self.find_single("G-single" + suffix, WW | WR | time)
            self.find_several("G2" + suffix, WW | WR | time)

    def is_known(self, name):
        """Is there a worse one, or the same without the clock?"""
        known = names(self.anomalies)
        return name.removesuffix("-realtime") in known

    def find_cycle(self, name, mask):
        if self.is_known(name):
            return
        for group in components(self.edges, mask):
            self.report(name, self.explain(shortest_cycle(self.edges, group[0], mask, set(group)), mask))
            return

    def find_single(self, name, mask):
        if self.is_known(name):
            return
        for group in components(self.edges, mask | RW):
            inside = set(group)
            for a in group:
                for b, kinds in self.edges[a].items():
                    if kinds & RW and b in inside:
                        path = shortest_path(self.edges, b, a, mask, inside)
                        if path:
                            self.report(name, self.explain([a, *path], mask | RW))
                            return

    def find_several(self, name, mask):
        """A cycle that needs several rw: what remains when no other kind was found."""
        found = names(self.anomalies)
        if self.is_known(name) or any(worse + suffix in found for worse in ("G0", "G1c", "G-single")
                                      for suffix in ("", "-realtime")):
            return
        self.find_cycle(name, mask | RW)

    def explain(self, cycle, mask):
        lines = []
        for a, b in zip(cycle, cycle[1:]):
            kinds = [name for kind, name in NAMES.items() if kind & mask & self.edges[a][b]]
            lines.append(f"\n    {a}\n      --{' and '.join(kinds)}-->")
        return "".join(lines) + f"\n    {cycle[-1]}"


def neighbours(edges, a, mask):
    return [b for b, kinds in edges.get(a, {}).items() if kinds & mask]


def components(edges, mask):
    """Strongly connected components of more than one (Tarjan's, without recursion)."""
    index, low, stack, on_stack, found = {}, {}, [], set(), []
    for root in list(edges):
        if root in index:
            continue
        work = [(root, iter(neighbours(edges, root, mask)))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            a, rest = work[-1]
            for b in rest:
                if b not in index:
                    index[b] = low[b] = len(index)
                    stack.append(b)
                    on_stack.add(b)
                    work.append((b, iter(neighbours(edges, b, mask))))
                    break
                if b in on_stack:
                    low[a] = min(low[a], index[b])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[a])
                if low[a] == index[a]:
                    group = []
                    while not group or group[-1] is not a:
                        group.append(stack.pop())
                        on_stack.discard(group[-1])
                    if len(group) > 1:
                        found.append(group)
    return found


def shortest_path(edges, start, goal, mask, inside):
    """[start, ..., goal] or None."""
    came, queue = {start: None}, collections.deque([start])
    while queue:
        a = queue.popleft()
        if a is goal:
            path = [a]
            while came[path[-1]] is not None:
                path.append(came[path[-1]])
            return path[::-1]
        for b in neighbours(edges, a, mask):
            if b in inside and b not in came:
                came[b] = a
                queue.append(b)
    return None


def shortest_cycle(edges, start, mask, inside):
    paths = [shortest_path(edges, b, start, mask, inside) for b in neighbours(edges, start, mask) if b in inside]
    return [start, *min((path for path in paths if path), key=len)]
