# SPDX-License-Identifier: Apache-2.0
"""The built-in page: it is served whole, and may load nothing from elsewhere."""
import html.parser
import re


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.ids, self.loads = set(), []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids.add(attrs.get("id"))
        self.loads += [attrs[name] for name in ("src", "href") if attrs.get(name)]


def test_page(sim):
    answer = sim.request("GET", "/")
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Server"].startswith("themis/")
    page = Page(answer.text)
    assert page.ids >= {"form", "question", "ask", "answer", "sources", "status"}
    assert not [url for url in page.loads if re.match(r"(https?:)?//", url)]
    assert "innerHTML" not in answer.text  # model output is text, never markup


def test_head(sim):
    plain = {"Accept-Encoding": "identity"}
    answer = sim.request("HEAD", "/", headers=plain)
    assert answer.status_code == 200 and not answer.content
    assert int(answer.headers["Content-Length"]) == len(sim.request("GET", "/", headers=plain).content)


def test_health(sim):
    health = sim.request("GET", "/health").json()
    assert health["status"] == "ok"
    assert {model["name"]: model["ready"] for model in health["models"]} == {"chat": True, "embed": True}
    assert sim.request("GET", "/readyz").status_code == 200
    metrics = sim.request("GET", "/metrics").text
    assert "themis_http_request_duration_seconds_count" in metrics
    for line in metrics.splitlines():
        assert line.startswith("#") or re.fullmatch(r'themis_\w+(\{[^}]*\})? [-+0-9.eEinfNa]+', line), line
