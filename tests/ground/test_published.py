"""Downloads against a real HTTP server on this machine: checked, never half-written."""

from __future__ import annotations

import http.server
import logging
import subprocess
import threading
from functools import partial
from pathlib import Path

import pytest

from lm_factuality.benchmarks import all_sources
from lm_factuality.cli import main
from lm_factuality.ground import published as fetching
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.published import Source, blob_id, cached_path, fetch, locate

CONTENT = b"doc_id,prefix\n" + b"1,some text\n" * 40_000


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves files; breaks the first answer off where the server is told to."""

    def do_GET(self):
        content = Path(self.translate_path(self.path))
        self.server.requests.append(self.path)
        if not content.is_file():
            self.send_error(404)
            return
        body = content.read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        stop = len(body)
        if self.server.break_at:
            stop, self.server.break_at = self.server.break_at, None
        self.wfile.write(body[:stop])

    def log_message(self, *_):
        pass


@pytest.fixture
def source(tmp_path) -> Source:
    file = tmp_path / "upstream" / "org" / "repo" / "c0ffee" / "data" / "rows.csv"
    file.parent.mkdir(parents=True)
    file.write_bytes(CONTENT)
    return Source("rows", "org/repo", "c0ffee", "data/rows.csv", blob_id(file), "MIT", 40_000)


@pytest.fixture
def server(tmp_path, source, monkeypatch):
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(Handler, directory=tmp_path / "upstream")
    )
    server.requests, server.break_at = [], None
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("LM_FACTUALITY_MIRROR", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("LM_FACTUALITY_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("LM_FACTUALITY_DATA", raising=False)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    yield server
    server.shutdown()


def parts(source: Source) -> list[str]:
    return sorted(
        path.name for path in cached_path(source).parent.glob("*") if path.suffix != ".lock"
    )


def test_a_blob_id_is_gits(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    git = subprocess.run(
        ["git", "hash-object", str(path)], capture_output=True, text=True, check=True
    )
    assert blob_id(path) == git.stdout.strip()


def test_a_download_is_checked_and_kept(source, server):
    path = fetch(source)
    assert path.read_bytes() == CONTENT
    assert parts(source) == ["rows.csv"]
    assert locate(source).is_upstream
    assert len(server.requests) == 1


def test_an_interrupted_download_leaves_nothing_and_is_made_again(source, server):
    server.break_at = 200_000
    with pytest.raises(DataError, match="cannot be downloaded"):
        fetch(source)
    assert parts(source) == []
    assert fetch(source).read_bytes() == CONTENT
    assert parts(source) == ["rows.csv"]


def test_other_content_is_refused_and_nothing_is_kept(source, server, tmp_path):
    (tmp_path / "upstream/org/repo/c0ffee/data/rows.csv").write_bytes(b"something else")
    with pytest.raises(DataError, match=f"is not git blob {source.blob}; nothing was kept"):
        fetch(source)
    assert parts(source) == []


def test_a_damaged_cache_says_how_to_mend_it(source, server):
    fetch(source).write_bytes(b"damaged")
    with pytest.raises(DataError, match="lm-factuality data fetch rows"):
        fetch(source)


@pytest.mark.parametrize("trouble", ["offline", "missing upstream", "no server", "no certificates"])
def test_no_network_and_no_file_says_both_ways_out(source, server, monkeypatch, trouble, tmp_path):
    if trouble == "offline":
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    elif trouble == "no server":
        monkeypatch.setenv("LM_FACTUALITY_MIRROR", "http://127.0.0.1:9")
    elif trouble == "no certificates":
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "gone.pem"))
    else:
        (tmp_path / "upstream/org/repo/c0ffee/data/rows.csv").unlink()
    with pytest.raises(DataError) as error:
        fetch(source)
    text = str(error.value)
    assert "\n" not in text
    assert "lm-factuality data fetch rows" in text
    assert "--metadata data_dir=DIR" in text


def test_a_local_folder_replaces_the_download(source, server, tmp_path, monkeypatch, caplog):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "rows.csv").write_bytes(CONTENT)
    assert locate(source, folder).is_upstream
    (folder / "rows.csv").write_bytes(CONTENT[:100])
    monkeypatch.setenv("LM_FACTUALITY_DATA", str(folder))
    with caplog.at_level(logging.WARNING):
        assert not locate(source).is_upstream
    assert "is not the published file" in caplog.text
    assert server.requests == []
    with pytest.raises(DataError, match="the data folder must hold rows.csv"):
        locate(source, tmp_path)


def test_the_registry_pins_what_the_reference_pins(shared):
    import json

    pinned = json.loads((shared / "reference" / "upstream_blobs.json").read_text(encoding="utf-8"))
    known = [source for source in all_sources().values() if source.repository in pinned]
    assert {
        source.name.split("_")[0] for source in all_sources().values() if source not in known
    } == {"longfact"}
    for source in known:
        assert pinned[source.repository]["commit"] == source.commit
        assert pinned[source.repository]["blobs"][source.path] == source.blob
    assert (
        blob_id(shared / "data" / "factor" / "expert_factor.csv")
        == all_sources()["expert_factor"].blob
    )


def test_the_commands(source, server, monkeypatch, capsys):
    monkeypatch.setattr(fetching, "_TIMEOUT", 2)
    monkeypatch.setitem(all_sources(), "rows", source)
    assert main(["data", "verify", "rows"]) == 1
    assert "rows: not fetched" in capsys.readouterr().err
    assert main(["data", "fetch", "rows"]) == 0
    assert main(["data", "verify", "rows"]) == 0
    assert source.blob in capsys.readouterr().out
    cached_path(source).write_bytes(b"damaged")
    assert main(["data", "verify", "rows"]) == 1
    assert f"expected {source.blob}" in capsys.readouterr().err
    assert main(["data", "ls"]) == 0
    assert "2994" in capsys.readouterr().out
    assert main(["data", "fetch", "row"]) == 1
    assert "did you mean rows?" in capsys.readouterr().err
