# SPDX-License-Identifier: Apache-2.0
"""Documents as people have them, through the shell: PDF, HTML, CSV, mixed folders, and taking them
out again."""
import gzip
import json

import pytest

from conftest import cli

PAGE = """<!doctype html><html><head><meta charset="iso-8859-1"><title>Caf\xe9 rules</title></head>
<body><nav>Home</nav><h1>Rules</h1><p>The coffee machine Zephyrine is cleaned by Odile
every Monday.</p><script>alert("Zephyrine")</script></body></html>"""


def pdf(*lines):
    """A small PDF of one page."""
    text = "BT /F1 12 Tf 72 720 Td " + " ".join(f"({line}) Tj 0 -20 Td" for line in lines) + " ET"
    parts = ["<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
             "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R"
             " /Resources << /Font << /F1 5 0 R >> >> >>",
             f"<< /Length {len(text)} >>\nstream\n{text}\nendstream",
             "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    out, offsets = "%PDF-1.4\n", []
    for number, part in enumerate(parts, 1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n{part}\nendobj\n"
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    return (out + f"xref\n0 {len(parts) + 1}\n0000000000 65535 f \n{table}"
            f"trailer << /Size {len(parts) + 1} /Root 1 0 R >>\nstartxref\n{len(out)}\n%%EOF\n").encode()


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "mixed"
    (path / "deep").mkdir(parents=True)
    return path


def load(server, *words, status=0):
    return json.loads(cli(server, "--json", "import", *words, status=status).stdout)


def chunks(server, word):
    return server.rows("FOR c IN chunks FILTER CONTAINS(c.text, @w) RETURN {path: c.path, title: c.title,"
                       " text: c.text, from: c.from, to: c.to}", w=word)


def test_kinds(real, folder):
    (folder / "letter.pdf").write_bytes(pdf("The parrot Quillon lives in room seven.",
                                            "He is fed twice a day."))
    (folder / "no-ending").write_bytes(pdf("The tortoise Brunhild sleeps in winter."))
    (folder / "deep" / "page.html").write_bytes(PAGE.encode("latin-1"))
    (folder / "people.csv").write_text('Name;Town\n"Xanthippe; the elder";Ghent\nYorick;"Ulm\nan der Donau"\n')
    (folder / "note.md").write_text("# Note\n\nThe key Wendeltreppe hangs by the door.\n")
    done = load(real, folder)
    assert (done["documents"], done["skipped"]) == (5, 0)
    assert "room seven" in chunks(real, "Quillon")[0]["text"]
    assert "winter" in chunks(real, "Brunhild")[0]["text"]
    (page,) = chunks(real, "Zephyrine")
    assert page["title"] == "Caf\xe9 rules" and page["text"].startswith("# Rules")
    assert "alert" not in page["text"] and "Home" not in page["text"]
    assert "- Name: Xanthippe; the elder; Town: Ghent" in chunks(real, "Xanthippe")[0]["text"]
    assert "Town: Ulm an der Donau" in chunks(real, "Yorick")[0]["text"]
    kinds = real.rows("FOR d IN documents FILTER CONTAINS(d.path, 'mixed/') "
                      "RETURN d.attributes.source_format")
    assert sorted(map(str, kinds)) == ["None", "csv", "html", "pdf", "pdf"]
    assert load(real, folder)["unchanged"] == 5


def test_an_unchanged_file_is_not_converted_again(real, folder):
    """Without pdftotext nothing but the bytes of a PDF can be looked at."""
    letter, page = folder / "letter.pdf", folder / "page.html"
    letter.write_bytes(pdf("The swan Beatrix swims."))
    page.write_text("<p>The goose Leopoldine waddles.")
    blind = {"PATH": str(folder)}

    def again():
        return json.loads(cli(real, "--json", "import", folder, env=blind).stdout)

    assert load(real, folder)["documents"] == 2
    done = again()
    assert (done["unchanged"], done["documents"], done["skipped"]) == (2, 0, 0)
    # Another file of the same text: converted, but neither split nor embedded.
    letter.write_bytes(letter.read_bytes() + b"% no text\n")
    done = again()
    assert (done["unchanged"], done["skipped"]) == (1, 1) and "pdftotext" in done["failed"][0]["reason"]
    done = load(real, folder)
    assert (done["unchanged"], done["documents"], done["embed_seconds"]) == (2, 0, 0)
    assert again()["unchanged"] == 2
    # Another text, and back again.
    page.write_text("<p>The goose Leopoldine runs.")
    assert load(real, folder)["documents"] == 1
    assert "runs" in chunks(real, "Leopoldine")[0]["text"]
    page.write_text("<p>The goose Leopoldine waddles.")
    assert load(real, folder)["documents"] == 1
    assert "waddles" in chunks(real, "Leopoldine")[0]["text"]
    # One that was forgotten is not known.
    assert real.request("DELETE", "/v1/import", params={"path": str(page)}).status_code == 200
    assert load(real, folder)["documents"] == 1


def test_known_over_http(real):
    docs = [{"path": f"known/{n}", "text": f"The duck Hermine {n} dives.", "source_digest": f"d{n}"} for n in range(2)]
    docs.append({"path": "known/plain", "text": "The duck Hermine rests."})

    def known(*pairs, **more):
        asked = [{"path": f"known/{path}", "source_digest": digest} for path, digest in pairs]
        answer = real.request("POST", "/v1/import/known", json={"documents": asked, **more})
        assert answer.status_code == 200, answer.text
        return answer.json()["known"]

    everything = [("0", "d0"), ("1", "d0"), ("1", "d1"), ("plain", "d0"), ("nothing", "d0")]
    assert known(*everything) == [False] * 5
    assert real.request("POST", "/v1/import", json={"documents": docs}).status_code == 200
    assert known(*everything) == [True, False, True, False, False]
    assert known(*everything, documents_collection="elsewhere", chunks_collection="c2") == [False] * 5
    docs[2]["source_digest"] = "d0"  # noted, although the text is the same
    assert real.request("POST", "/v1/import", json={"documents": docs}).json()["unchanged"] == 3
    assert known(("plain", "d0")) == [True]
    good = {"path": "known/0", "source_digest": "d0"}
    for bad in ([], [{**good, "text": "x"}], [{"path": "known/0"}], [{**good, "path": ""}], [1],
                [{**good, "source_digest": "d" * 129}], [good] * 1001):
        answer = real.request("POST", "/v1/import/known", json={"documents": bad})
        assert answer.status_code == 400, answer.text
    wrong = {"documents": [good], "model": "nobody"}
    assert real.request("POST", "/v1/import/known", json=wrong).status_code == 404
    long = [{"path": "known/0", "text": "x", "source_digest": "d" * 129}]
    assert real.request("POST", "/v1/import", json={"documents": long}).status_code == 400


def test_bad_files_are_listed_and_stop_nothing(real, folder):
    whole = pdf("Never read.")
    (folder / "good.md").write_text("The lamp Uhrwerk glows.\n")
    (folder / "cut.pdf").write_bytes(whole[:40])
    (folder / "noise.pdf").write_bytes(b"%PDF-1.7\n" + bytes(range(256)) * 50)
    (folder / "empty.pdf").write_bytes(pdf())
    (folder / "empty.html").write_bytes(b"")
    (folder / "open.csv").write_text('a,b\n1,"2\n')
    (folder / "photo.jpg").write_bytes(b"\xff\xd8\xff\xe0" + bytes(200))
    (folder / "drawing.eps").write_text("%!PS-Adobe-3.0 EPSF-3.0\n0 0 moveto\n")
    (folder / "umlaut.txt").write_bytes("Die M\xfchle\n".encode("latin-1"))
    (folder / "rows.jsonl").write_text('{"a": 1}\n')
    (folder / "gone.md").symlink_to(folder / "nowhere")
    done = load(real, folder)
    assert done["documents"] == 1
    reasons = {item["path"].rsplit("/", 1)[1]: item["reason"] for item in done["failed"]}
    assert done["skipped"] == len(reasons) == 10
    assert "no text" in reasons["empty.pdf"]
    assert "not text" in reasons["photo.jpg"]
    assert "PostScript" in reasons["drawing.eps"]
    assert "not UTF-8" in reasons["umlaut.txt"] and "--charset" in reasons["umlaut.txt"]
    assert "line 2" in reasons["open.csv"]
    assert "--collection" in reasons["rows.jsonl"]
    assert "No such file" in reasons["gone.md"]
    assert all(reasons.values())
    assert chunks(real, "Uhrwerk")
    shown = cli(real, "import", folder)
    assert "10 skipped" in shown.stdout and "photo.jpg: it is not text" in shown.stderr
    load(real, folder / "cut.pdf", status=1)  # nothing but a bad file


def test_packed_files(real, folder):
    (folder / "changes.md.gz").write_bytes(gzip.compress(b"# Changes\n\nThe oboe Sarabande was tuned.\n"))
    (folder / "page.html.gz").write_bytes(gzip.compress(PAGE.replace("Zephyrine", "Allemande").encode("latin-1")))
    (folder / "letter.pdf.gz").write_bytes(gzip.compress(pdf("The violin Courante lost a string.")))
    (folder / "rows.csv.gz").write_bytes(gzip.compress(b"n,m\n1,2\n3,4\n"))
    (folder / "cut.txt.gz").write_bytes(gzip.compress(b"never read " * 1000)[:60])
    (folder / "tar.tar.gz").write_bytes(gzip.compress(bytes(1024)))
    (folder / "bomb.txt.gz").write_bytes(gzip.compress(b"a" * (40 << 20), 1))
    (folder / "plain.gz").write_text("The cello Gigue is not packed at all.\n")
    (folder / "flat.txt").write_bytes(gzip.compress(b"The viola Bourree is packed without saying so.\n"))
    done = load(real, folder)
    assert done["documents"] == 6, done
    reasons = {item["path"].rsplit("/", 1)[1]: item["reason"] for item in done["failed"]}
    assert "unexpected end of file" in reasons["cut.txt.gz"]
    assert "not text" in reasons["tar.tar.gz"]
    assert "limit" in reasons["bomb.txt.gz"]
    (markdown,) = chunks(real, "Sarabande")
    assert markdown["title"] == "Changes" and markdown["path"].endswith("changes.md.gz")
    assert chunks(real, "Allemande")[0]["title"] == "Caf\xe9 rules"
    assert chunks(real, "Courante") and chunks(real, "Gigue") and chunks(real, "Bourree")
    assert load(real, folder / "rows.csv.gz", "--collection", "packedrows")["rows"] == 2
    assert load(real, folder, "--prune")["removed"] == 0


def test_links(real, folder):
    """One path for each file, however many links lead to it."""
    (folder / "deep" / "real.md").write_text("The horn Gavotte is old.\n")
    (folder / "a-link.md").symlink_to("deep/real.md")
    (folder / "deep" / "other.md").symlink_to(folder / "deep" / "real.md")
    (folder / "loop").symlink_to(folder)
    (folder / "self.md").symlink_to("self.md")
    outside = folder.parent / "outside.md"
    outside.write_text("The flute Musette is new.\n")
    for name in ("first.md", "second.md"):
        (folder / name).symlink_to(outside)
    done = load(real, folder)
    assert (done["documents"], done["linked"], done["skipped"]) == (2, 3, 1)
    assert [c["path"].rsplit("/", 1)[1] for c in chunks(real, "Gavotte")] == ["real.md"]
    assert len(chunks(real, "Musette")) == 1
    assert "3 links" in cli(real, "import", folder).stdout
    assert load(real, folder, "--prune")["removed"] == 0
    assert load(real, folder / "a-link.md")["documents"] == 1  # named outright it is a file as any


def test_charsets(real, folder):
    (folder / "mill.txt").write_bytes("Die M\xfchle Quendelberg mahlt.\n".encode("latin-1"))
    (folder / "wide.md").write_bytes("# \u042f\n\n\u041c\u0435\u043b\u044c\u043d\u0438\u0446\u0430 Wermut.\n".encode("utf-16"))
    (folder / "table.csv").write_bytes("Ort;Fluss\nK\xf6ln;Rhein\n".encode("latin-1"))
    done = load(real, folder)
    assert done["documents"] == 1 and done["skipped"] == 2  # the byte order mark tells that one is UTF-16
    assert chunks(real, "Wermut")[0]["title"] == "\u042f"
    done = load(real, folder, "--charset", "ISO-8859-1")
    assert (done["documents"], done["unchanged"], done["skipped"]) == (2, 1, 0)
    assert "M\xfchle Quendelberg" in chunks(real, "Quendelberg")[0]["text"]
    assert real.rows("FOR d IN documents FILTER CONTAINS(d.path, 'mixed/mill') RETURN d.attributes") == [
        {"source_charset": "ISO-8859-1"}]
    assert load(real, folder / "table.csv", "--charset=latin1", "--collection", "towns")["rows"] == 1
    assert real.rows("FOR t IN towns RETURN t.Ort") == ["K\xf6ln"]
    for bad in ("nonsense", "", "UTF-8//TRANSLIT"):
        assert "encoding" in cli(real, "import", folder, "--charset", bad, status=2).stderr


def test_what_an_import_cost(real, folder):
    (folder / "a.md").write_text("The drum Pavane is loud.\n" * 200)
    done = load(real, folder)
    assert 0 < done["embed_seconds"] <= done["seconds"]
    shown = cli(real, "import", folder).stdout
    assert "1 unchanged" in shown and "chunks/s" not in shown
    (folder / "a.md").write_text("The drum Pavane is soft.\n" * 200)
    assert "chunks/s" in cli(real, "import", folder).stdout


def test_a_refused_document_does_not_take_its_batch_along(start, folder):
    """One text is larger than a body may be; the others of its batch are imported."""
    server = start(settings=["max_body_bytes=100000"])
    (folder / "a.md").write_text("The kite Ostwind flies.\n")
    (folder / "m.md").write_text("word " * 30000)
    (folder / "z.md").write_text("The kite Westwind falls.\n")
    done = load(server, folder)
    assert done["documents"] == 2
    assert [item["path"].rsplit("/", 1)[1] for item in done["failed"]] == ["m.md"]


def test_names_that_are_not_utf8_are_listed(real, folder):
    (folder / "a.md").write_text("The kite Nordwind rests.\n")
    with open(bytes(folder) + b"/\xff.md", "w") as file:
        file.write("x\n")
    done = load(real, folder)
    assert done["documents"] == 1
    (bad,) = done["failed"]
    assert bad["path"].endswith("/?.md") and "name" in bad["reason"]
    assert load(real, folder, "--prune")["removed"] == 0


def test_csv_as_rows(real, folder):
    table = folder / "t.csv"
    table.write_text("n,code,text\n12,007,\"a, b\"\n-3.5,1e2,\n")
    assert load(real, table, "--collection", "csvrows")["rows"] == 2
    assert real.rows("FOR r IN csvrows SORT r.n RETURN UNSET(r, '_key', '_id', '_rev')") == [
        {"n": -3.5, "code": 100}, {"n": 12, "code": "007", "text": "a, b"}]


def test_prune(real, folder):
    for name in ("a.md", "b.md", "deep/c.md"):
        (folder / name).write_text(f"# {name}\n\nThe bell Rosalinde-{name[-4]} rings.\n")
    beside = folder.parent / "mixed-other.md"
    beside.write_text("The bell Rosalinde-x rings beside.\n")
    load(real, folder)
    load(real, beside)
    (folder / "b.md").unlink()
    (folder / "deep" / "c.md").unlink()
    assert load(real, folder)["removed"] == 0
    assert len(chunks(real, "Rosalinde")) == 4
    done = load(real, folder, "--prune")
    assert (done["removed"], done["unchanged"]) == (2, 1)
    assert sorted(c["path"].rsplit("/", 1)[1] for c in chunks(real, "Rosalinde")) == ["a.md", "mixed-other.md"]
    left = real.rows("FOR d IN documents FILTER STARTS_WITH(d.path, @p) RETURN d.path", p=str(folder.parent))
    assert len(left) == 2
    (folder / "a.md").write_bytes(b"\xff")  # unreadable, but there
    assert load(real, folder, "--prune", status=1)["removed"] == 0
    assert len(chunks(real, "Rosalinde")) == 2
    (folder / "a.md").unlink()
    assert load(real, folder, "--prune")["removed"] == 1
    load(real, folder.parent / "missing", "--prune", status=1)
    assert len(chunks(real, "Rosalinde")) == 1


def test_prune_over_http(real):
    docs = [{"path": f"http-prune/{n}", "text": f"The gong Tamsin {n} sounds."} for n in range(3)]
    assert real.request("POST", "/v1/import", json={"documents": docs}).status_code == 200
    for bad in ({"prefix": "http-prune/"}, {"prefix": "", "keep": []}, {"keep": []},
                {"prefix": "http-prune/", "keep": [1]}, {"prefix": "http-prune/", "keep": [], "x": 1}):
        assert real.request("POST", "/v1/import/prune", json=bad).status_code == 400, bad
    assert len(chunks(real, "Tamsin")) == 3
    answer = real.request("POST", "/v1/import/prune",
                          json={"prefix": "http-prune/", "keep": ["http-prune/1"]}).json()
    assert answer["removed"] == 2 and sorted(answer["paths"]) == ["http-prune/0", "http-prune/2"]
    assert [c["path"] for c in chunks(real, "Tamsin")] == ["http-prune/1"]
    aside = {"documents_collection": "d2", "chunks_collection": "c2"}
    assert real.request("POST", "/v1/import", json={"documents": docs[:1], **aside}).status_code == 200
    for status in (200, 404):
        answer = real.request("DELETE", "/v1/import", params={"path": "http-prune/0", **aside})
        assert answer.status_code == status, answer.text
    for path, status in (("http-prune/1", 200), ("http-prune/1", 404), ("", 400)):
        assert real.request("DELETE", "/v1/import", params={"path": path}).status_code == status
    assert chunks(real, "Tamsin") == []


def test_offsets_cut_the_text(real, folder):
    """For text and Markdown every stored chunk is exactly the bytes of the file that it names."""
    text = "# \xc4rger\n\n" + "".join(f"Sentence {n} of \u20ac {n},50 stands here. " for n in range(300))
    (folder / "long.md").write_text(text)
    load(real, folder)
    data = (folder / "long.md").read_bytes()
    found = [c for c in chunks(real, "stands here") if c["path"].endswith("long.md")]
    assert len(found) > 10
    for c in found:
        assert data[c["from"]:c["to"]].decode() == c["text"]
