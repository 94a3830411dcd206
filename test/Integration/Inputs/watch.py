# ===- watch.py - Is the page of poplar watch served as it should be? ------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: watch.py RUN

Starts `poplar watch` on a copy of a run, and checks what it serves: while rows come,
with ten thousand steps, to several readers, and when a file is damaged."""

import concurrent.futures
import http.client
import pathlib
import re
import shutil
import subprocess
import sys
import time
from html.parser import HTMLParser

REFERENCES = {"src", "href", "action", "data", "poster", "srcset"}


class Page(HTMLParser):
    """Notes what refers to something else, and scripts."""

    def __init__(self, text):
        super().__init__()
        self.references, self.scripts = [], 0
        self.feed(text)
        assert not self.references, self.references

    def handle_starttag(self, tag, attributes):
        self.scripts += tag == "script"
        self.references += [(tag, name) for name, _ in attributes if name in REFERENCES]
        self.references += [(tag, name) for name, _ in attributes if name.startswith("on")]


class Server:
    def __init__(self, run, *options):
        command = ["poplar", "watch", str(run), "--port", "0", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        self.port = int(re.match(r"http://127\.0\.0\.1:(\d+)  shows the run", line)[1])

    def ask(self, path, method="GET", body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()

    def view(self):
        status, _, text = self.ask("/view")
        assert status == 200, (status, text)
        return text

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def check_page(server):
    status, headers, text = server.ask("/")
    assert status == 200 and text.startswith("<!DOCTYPE html>")
    assert Page(text).scripts == 1
    assert 'name="viewport"' in text and "prefers-color-scheme: dark" in text
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert headers["Cache-Control"] == "no-store"
    view = server.view()
    assert view in text and "<script" not in view
    for words in ("Loss and speed", "Throughput", "Devices", "rank 0", "rank 1", "computes"):
        assert words in view, words


def check_read_only(server):
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        status, _, _ = server.ask("/", method, "x")
        assert status >= 400, (method, status)
    for path in ("/metrics.csv", "/../metrics.csv", "/view/../../etc/passwd", "/latest/state.json"):
        status, _, _ = server.ask(path)
        assert status == 404, (path, status)


def main():
    source = pathlib.Path(sys.argv[1])
    run = source.parent / "watched"
    shutil.rmtree(run, ignore_errors=True)
    run.mkdir()
    metrics = (source / "metrics.csv").read_text().splitlines(keepends=True)
    devices = (source / "devices.csv").read_text()
    (run / "metrics.csv").write_text(metrics[0])
    with Server(run) as server:
        assert "no step yet" in server.view()
        (run / "metrics.csv").write_text("".join(metrics[:3]) + metrics[3][:5])
        assert "step 2</h1>" in server.view(), "a row that is not complete counts"
        (run / "devices.csv").write_text(devices)
        (run / "metrics.csv").write_text("".join(metrics))
        check_page(server)
        check_read_only(server)
        # Ten thousand steps, to several readers.
        cells = metrics[-1].split(",", 1)[1]
        (run / "metrics.csv").write_text(
            metrics[0] + "".join(f"{step},{cells}" for step in range(1, 10001))
        )
        begin = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            views = list(pool.map(lambda _: server.view(), range(8)))
        assert all("step 10,000</h1>" in view for view in views)
        assert max(map(len, views)) < 100_000, "the page grows with the run"
        assert time.monotonic() - begin < 20
        # A damaged file is said, and the server stays.
        (run / "metrics.csv").write_text(metrics[0] + "1,none\n")
        status, _, text = server.ask("/view")
        assert status == 500 and "metrics.csv:2: expected" in text, (status, text)
        (run / "metrics.csv").write_text("".join(metrics))
        server.view()
        # Names are words, not HTML.
        (run / "devices.csv").write_text(devices.replace(",host", ",<b>host", 1))
        assert server.ask("/view")[0] == 500
        (run / "devices.csv").write_text(devices.replace("slow", "<i onclick=x>"))
        Page(server.view())
        taken = subprocess.run(
            ["poplar", "watch", str(run), "--port", str(server.port)], capture_output=True, text=True
        )
        assert taken.returncode == 1 and "cannot listen there" in taken.stderr, taken


main()
