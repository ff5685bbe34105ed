"""A Chromium for the tests of the page: the one that is there, else one from the system's packages, else Playwright's.

Run as a program it installs one where none is there; ``ZSCOUT_CHROMIUM`` names one that is somewhere else.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FONTS = {"apt-get": ["fonts-liberation"]}  # without any font a page has no letters
INSTALL = {  # by package manager: what comes before, and what installs
    "apt-get": (["update", "-qq"], ["install", "-qq", "-y", "--no-install-recommends"]),
    "dnf": (None, ["install", "-q", "-y"]),
    "zypper": (None, ["--non-interactive", "--quiet", "install"]),
    "apk": (None, ["add", "--quiet"]),
    "pacman": (None, ["-S", "--noconfirm", "--quiet"]),
}


def chromium() -> str | None:
    """Where it is, if there is one."""
    named = os.environ.get("ZSCOUT_CHROMIUM")
    if named:
        return named
    for name in NAMES:
        if found := shutil.which(name):
            return found
    return _playwrights_own()


def main() -> None:
    """Install one if there is none."""
    if found := chromium():
        print(f"the page is tested with {found}")
        return
    print("no Chromium is here: installing one for the tests of the page", flush=True)
    for attempt in (_by_packages, _by_playwright):
        if attempt() and (found := chromium()):
            print(f"the page is tested with {found}")
            return
    sys.exit("no Chromium could be installed: install one, or name one in ZSCOUT_CHROMIUM")


def _by_packages() -> bool:
    manager = next((name for name in INSTALL if shutil.which(name)), None)
    if manager is None:
        return False
    rights: list[str] = []
    if os.geteuid() != 0:
        if not shutil.which("sudo") or subprocess.run(["sudo", "-n", "true"], capture_output=True).returncode:
            return False  # it would ask for a password
        rights = ["sudo", "-n"]
    before, install = INSTALL[manager]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    if before is not None:
        subprocess.run([*rights, manager, *before], env=environment, check=False)
    words = [*rights, manager, *install, "chromium", *FONTS.get(manager, [])]
    return subprocess.run(words, env=environment, stdout=subprocess.DEVNULL, check=False).returncode == 0


def _by_playwright() -> bool:
    return subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"], check=False).returncode == 0


def _playwrights_own() -> str | None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).exists() else None


if __name__ == "__main__":
    main()
