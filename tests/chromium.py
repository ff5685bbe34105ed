"""A Chromium for the tests of the page: the one that is there, else Playwright's own, else the system's package.

Run as a program it sees to one. System packages are installed only by root, in CI or a container. Without any the tests
of the page are skipped, and this says what to do. ``ZSCOUT_CHROMIUM`` names one that is elsewhere.
"""

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from installing import run
from waiting import PATIENCE

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
SHOWN = re.compile(r"(Downloading [\w ]+|Setting up \S+|\|.*\d+%.*)")  # of what an installer says
FONTS = {"apt-get": ["fonts-liberation"]}  # without any font a page has no letters
INSTALL = {  # by package manager: what comes before, and what installs
    "apt-get": (["update", "-q"], ["install", "-q", "-y", "--no-install-recommends"]),
    "dnf": (None, ["install", "-q", "-y"]),
    "zypper": (None, ["--non-interactive", "--quiet", "install"]),
    "apk": (None, ["add", "--quiet"]),
    "pacman": (None, ["-S", "--noconfirm", "--quiet"]),
}
ADVICE = (
    "no Chromium: the tests of the page are skipped. Install Chromium or Chrome, or run "
    "'.venv/bin/python -m playwright install --with-deps chromium', or name one in ZSCOUT_CHROMIUM"
)


@cache
def chromium() -> str | None:
    """Where one is that starts, if there is one."""
    named = os.environ.get("ZSCOUT_CHROMIUM")
    candidates = [named] if named else [*map(shutil.which, NAMES), _playwrights_own()]
    return next((path for path in candidates if path and _starts(path)), None)


def main() -> None:
    """See to one, and say in a line which it is or what to do."""
    found = chromium()
    for attempt in () if found or os.environ.get("ZSCOUT_CHROMIUM") else (_by_playwright, _by_packages):
        if attempt():
            chromium.cache_clear()
            if found := chromium():
                break
    if not found:
        line = "!" * 80
        print(f"{line}\n{ADVICE}\n{line}", flush=True)
        return
    print(f"the page is tested with {found}")


def may_install_packages() -> bool:
    """Only as root, and only where nobody keeps house: in CI or a container."""
    marks = (Path("/.dockerenv"), Path("/run/.containerenv"))
    return os.geteuid() == 0 and (bool(os.environ.get("CI")) or any(mark.exists() for mark in marks))


def _by_packages() -> bool:
    manager = next((name for name in INSTALL if shutil.which(name)), None)
    if manager is None or not may_install_packages():
        return False
    print(f"installing the system's package chromium with {manager}, as root in CI or a container", flush=True)
    before, install = INSTALL[manager]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    if before is not None:
        run([manager, *before], SHOWN, env=environment)
    return run([manager, *install, "chromium", *FONTS.get(manager, [])], SHOWN, env=environment) == 0


def _by_playwright() -> bool:
    print("no Chromium is here: trying Playwright's own", flush=True)
    words = [sys.executable, "-m", "playwright", "install", "chromium"]
    return run(words, SHOWN, stderr=subprocess.STDOUT) == 0


def _playwrights_own() -> str | None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).exists() else None


def _starts(path: str) -> bool:
    """A download may lack the libraries that it needs."""
    try:
        return subprocess.run([path, "--version"], capture_output=True, timeout=PATIENCE, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


if __name__ == "__main__":
    main()
