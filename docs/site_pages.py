"""For the site: pages and files beside ``docs/`` get a place in it, and links to them lead there."""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

DOCS = Path(__file__).parent
ROOT = DOCS.parent
FOLDER = "project"  # of the site, for what stands beside docs/
OUTSIDE = ("*.md", "LICENSE", "CITATION.cff", "examples/*", "results/*")
LINK = re.compile(r"(\]\()([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages and files beside ``docs/``."""
    for path in (path for pattern in OUTSIDE for path in sorted(ROOT.glob(pattern)) if path.is_file()):
        files.append(File.generated(config, _place(path), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrite the links of a page, which are those of the repository, to those of the site."""
    here, source = page.file.src_uri, Path(page.file.abs_src_path).resolve()

    def rewritten(link: "re.Match[str]") -> str:
        target = (source.parent / link[2]).resolve()
        if "://" in link[2] or not target.exists():  # mkdocs warns of it
            return link[0]
        return f"{link[1]}{posixpath.relpath(_place(target), posixpath.dirname(here))}{link[3] or ''})"

    return LINK.sub(rewritten, markdown)


def _place(path: Path) -> str:
    """Where a file of the repository stands in the site. Logs are plain text there: their links are of their date."""
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    suffix = ".txt" if path.is_relative_to(ROOT / "results") and path.is_file() else ""
    return f"{FOLDER}/{path.relative_to(ROOT).as_posix()}{suffix}"
