"""Models by hf://owner/name from a small server on this machine that speaks the Hub's API; and model cards."""

import hashlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import torch

import zscout
from commands import run_programs
from zscout.models.usfa.model import USFA, USFAConfig

MANY_ERRORS = """
for name in NAMES:
    try:
        zscout.load(name)
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
"""


def tiny(seed: int) -> USFA:
    config = USFAConfig(n_states=4, n_actions=2, dim=3, inputs=4, hidden=8, layers=1, heads=1)
    return USFA(config, torch.eye(4)[:, :3], torch.eye(4), seed=seed)


def digest(model: USFA) -> str:
    return hashlib.sha256(b"".join(t.numpy().tobytes() for t in model.state_dict().values())).hexdigest()[:12]


@dataclass
class Hub:
    """Repositories: files by commit, commits by revision; and the requests that came."""

    commits: dict[str, dict[str, dict[str, bytes]]] = field(default_factory=dict)
    revisions: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)  # that it states, if others than those of the files
    address: str = ""

    def push(self, repository: str, files: dict[str, bytes], *names: str) -> str:
        commit = hashlib.sha1(b"".join(files.values())).hexdigest()
        self.commits.setdefault(repository, {})[commit] = files
        self.revisions.setdefault(repository, {}).update(dict.fromkeys((*names, "main", commit), commit))
        return commit

    def answer(self, method: str, path: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and content."""
        api, words = path.startswith("/api/models/"), unquote(path).removeprefix("/api/models").strip("/").split("/")
        repository, verb, revision, rest = "/".join(words[:2]), *words[2:4], "/".join(words[4:])
        if repository not in self.commits:
            return 404, {"X-Error-Code": "RepoNotFound"}, b""
        commit = self.revisions[repository].get(revision)
        if commit is None:
            return 404, {"X-Error-Code": "RevisionNotFound"}, b""
        files = self.commits[repository][commit]
        if api and verb == "revision":
            listed = [{"rfilename": name, "size": self.sizes.get(name, len(files[name]))} for name in files]
            return 200, {}, json.dumps({"id": repository, "sha": commit, "siblings": listed}).encode()
        if api and verb == "tree":
            rows = [
                {"type": "file", "path": name, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}
                for name, content in files.items()
            ]
            return 200, {}, json.dumps(rows).encode()
        assert (method in ("HEAD", "GET"), verb) == (True, "resolve")
        tag = hashlib.sha1(files[rest]).hexdigest()
        return 200, {"X-Repo-Commit": commit, "ETag": f'"{tag}"'}, files[rest]


@pytest.fixture
def hub() -> Iterator[Hub]:
    hub = Hub()

    class Handler(BaseHTTPRequestHandler):
        def respond(self) -> None:
            path = urlsplit(self.path).path
            hub.asked.append(path)
            status, headers, content = hub.answer(self.command, path)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        do_GET = do_HEAD = respond  # noqa: N815

        def log_message(self, format: str, *values: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield hub
    server.shutdown()
    server.server_close()
    thread.join()


def files_of(model: USFA, folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in zscout.save(model, folder, license="mit").iterdir()}


def client(address: str, home: Path, code: str, **variables: str) -> list[str]:
    """The lines that a program prints in a process that has its own cache and this Hub."""
    given = {"HF_ENDPOINT": address, "HF_HOME": str(home), "HF_HUB_DISABLE_PROGRESS_BARS": "1", **variables}
    start = f"import os, hashlib\nos.environ.update({given!r})\nimport zscout\n"
    start += "def digest(model):\n    parts = b''.join(t.numpy().tobytes() for t in model.state_dict().values())\n"
    start += "    return hashlib.sha256(parts).hexdigest()[:12]\n"
    done = run_programs([start + code], home.parent)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_model_is_fetched_once_and_then_loads_without_a_network(hub: Hub, tmp_path: Path) -> None:
    model, other = tiny(0), tiny(1)
    extra = {"model.pt": b"pickle", "pytorch_model.bin": b"pickle", "sub/more.json": b"{}", "notes.txt": b"x"}
    first = hub.push("some-one/tiny.model", files_of(model, tmp_path / "a") | extra, "v1")
    second = hub.push("some-one/tiny.model", files_of(other, tmp_path / "b") | extra)
    home, name = tmp_path / "home", "hf://some-one/tiny.model"
    names = [name, f"{name}@v1", f"{name}@{first}", f"{name}@{second}"]
    code = f"for name in {names}:\n    print(digest(zscout.load(name)))\n"
    new, old = digest(other), digest(model)
    assert client(hub.address, home, code) == [new, old, old, new]
    resolved = {path.rpartition("/")[2] for path in hub.asked if "/resolve/" in path}
    assert resolved == {"model.safetensors", "config.json", "README.md"}
    stored = {path.name for path in home.rglob("snapshots/*/**/*")}
    assert stored == {"model.safetensors", "config.json", "README.md"}
    before = len(hub.asked)
    assert client(hub.address, home, code, HF_HUB_OFFLINE="1") == [new, old, old, new]
    assert len(hub.asked) == before
    nowhere = "http://127.0.0.1:9"  # refuses
    assert client(nowhere, home, code) == [new, old, old, new]


def test_a_name_is_resolved_once_and_its_size_is_checked_before(hub: Hub, tmp_path: Path) -> None:
    hub.push("me/moving", files_of(tiny(0), tmp_path / "a"))
    program = "print(digest(zscout.load('hf://me/moving')), digest(zscout.load('hf://me/moving')))"
    (line,) = client(hub.address, tmp_path / "home", program)
    assert line == f"{digest(tiny(0))} {digest(tiny(0))}"
    named = [path for path in hub.asked if path.endswith("/revision/main")]
    assert len(named) <= 2  # the sizes, and the files; the second load asks nothing
    hub.sizes["model.safetensors"] = 9_000_000_000
    before = len(hub.asked)
    (line,) = client(hub.address, tmp_path / "new", "NAMES = ['hf://me/moving']" + MANY_ERRORS)
    assert line.startswith("ValueError: hf://me/moving has 9,000,")
    assert not [path for path in hub.asked[before:] if "/resolve/" in path]


def test_every_failure_is_one_clear_line(hub: Hub, tmp_path: Path) -> None:
    files = files_of(tiny(0), tmp_path / "a")
    hub.push("me/good", files)
    hub.push("me/pickled", {"config.json": files["config.json"], "model.pt": b"pickle"})
    hub.push("me/damaged", files | {"model.safetensors": b"not one"})
    names = ["hf://good", "hf://me/good@", "hf://me/../x", "hf://me/--bad--", "hf://me/none", "hf://me/good@v9"]
    names += ["hf://me/pickled", "hf://me/damaged"]
    found = client(hub.address, tmp_path / "home", f"NAMES = {names}" + MANY_ERRORS)
    wanted = [
        "ValueError: 'hf://good' is not a name on the Hub: expected hf://owner/name, or hf://owner/name@revision",
        "ValueError: 'hf://me/good@' is not a name on the Hub",
        "ValueError: 'hf://me/../x' is not a name on the Hub",
        "ValueError: 'hf://me/--bad--' is not a name on the Hub: ",
        "ValueError: there is no hf://me/none on the Hub, or it is private: check the name, or run `hf auth login`",
        "ValueError: hf://me/good has no revision 'v9'",
        "ValueError: hf://me/pickled has no model.safetensors; it holds config.json (pickles are not loaded)",
        "ValueError: ",
    ]
    for line, start in zip(found, wanted, strict=True):
        assert line.startswith(start)
    assert "is damaged or not a safetensors file" in found[-1]
    code = "NAMES = ['hf://me/good']" + MANY_ERRORS
    not_cached = "ValueError: hf://me/good is not in the local cache, and {}: load it once with a network"
    (line,) = client(hub.address, tmp_path / "new", code, HF_HUB_OFFLINE="1")
    assert line == not_cached.format("HF_HUB_OFFLINE is set")
    (line,) = client("http://127.0.0.1:9", tmp_path / "new", code)
    assert line == not_cached.format("the Hub cannot be reached")
    (line,) = client(hub.address, tmp_path / "new", "import sys\nsys.modules['huggingface_hub'] = None\n" + code)
    assert "pip install -e '.[hub]'" in line


def test_a_card_has_the_front_matter_of_the_hub(tmp_path: Path) -> None:
    from huggingface_hub import metadata_load

    def front(folder: Path) -> dict[str, object]:
        assert 'zscout.load("hf://OWNER/mine")' in (folder / "README.md").read_text()
        return metadata_load(folder / "README.md") or {}

    model = tiny(0)
    model.about = {"name": "mine"}
    plain = front(zscout.save(model, tmp_path / "plain"))
    assert plain["library_name"] == "zscout"
    assert "successor-features" in str(plain["tags"])
    assert "license" not in plain
    assert "license" not in model.about
    given = zscout.save(model, tmp_path / "given", license="apache-2.0")
    assert front(given)["license"] == "apache-2.0"
    again = zscout.save(zscout.load(given), tmp_path / "again")  # a copy keeps it
    assert front(again)["license"] == "apache-2.0"
    for bad in ("MIT License", "mit\nextra: 1", ""):
        with pytest.raises(ValueError, match="license must be the Hub's name of one, such as mit"):
            zscout.save(model, tmp_path / "bad", license=bad)
    assert not (tmp_path / "bad").exists()
