"""Pictures of the live page for README and docs (``make pictures``); also measures frames and steps a second."""

import sys
from pathlib import Path
from typing import Any

from browsing import Cell, Visitor, browser
from chromium import chromium
from live import served

IMAGES = Path(__file__).parents[1] / "docs" / "images"
DESK: dict[str, Any] = {"viewport": {"width": 1440, "height": 900}, "device_scale_factor": 1}
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2, "has_touch": True}
BEST = [(6, 6), (6, 7), (7, 7), (7, 6)]
FAR = [(1, 1), (1, 2), (2, 2), (2, 1)]  # from where it starts
BAD = [(1, 4), (5, 4)]


A_SECOND = """new Promise((done) => {
  let frames = 0;
  const step = () => Number(document.body.dataset.liveStep);
  const [first, began] = [step(), performance.now()];
  const count = (now) => {
    frames += 1;
    if (now < began + 1000) requestAnimationFrame(count);
    else done([frames, step() - first]);
  };
  requestAnimationFrame(count);
})"""


def _measure(visitor: Visitor, what: str) -> None:
    frames, steps = visitor.page.evaluate(A_SECOND)
    print(f"{what} at 50 steps/s: {frames} frames and {steps} steps a second")


def main() -> None:
    """Take all pictures."""
    if chromium() is None:
        sys.exit("no Chromium: install one, or name one in ZSCOUT_CHROMIUM")
    with served() as server, browser() as chrome:

        def visitor(**window: Any) -> Visitor:
            one = Visitor(chrome.new_context(**window).new_page(), f"{server.link}#world=open-grid")
            one.arrive()
            return one

        painted = visitor(**DESK, color_scheme="light")
        _hide(painted)
        painted.until_step(23)
        painted.page.click("#play")
        painted.page.wait_for_timeout(600)
        painted.page.screenshot(path=IMAGES / "live.png")
        painted.fast()
        painted.play()
        painted.page.wait_for_timeout(5000)
        _measure(painted, "one method")
        painted.page.context.close()

        person = visitor(**DESK, color_scheme="dark")
        _teach(person, 26)
        person.page.screenshot(path=IMAGES / "live-person.png")
        person.page.context.close()

        two = visitor(**{**DESK, "viewport": {"width": 1680, "height": 1000}}, color_scheme="light")
        two.choose(choose_second="greedy")
        _hide(two, FAR)
        two.fast()
        two.until_step(60)
        two.page.wait_for_timeout(3000)
        _measure(two, "two methods")
        two.page.click("#play")
        two.page.wait_for_timeout(600)
        two.page.screenshot(path=IMAGES / "live-two.png")
        two.page.context.close()

        maze = visitor(**DESK, color_scheme="light")
        _search_maze(maze)
        maze.page.screenshot(path=IMAGES / "live-point-maze.png")
        maze.page.context.close()

        body = visitor(**DESK, color_scheme="light")
        _watch_body(body)
        body.page.screenshot(path=IMAGES / "live-body.png")
        body.play()
        body.page.wait_for_timeout(4000)
        _measure(body, "a body")
        body.page.context.close()

        phone = visitor(**PHONE, color_scheme="light")
        _watch_body(phone)
        phone.page.screenshot(path=IMAGES / "live-phone.png")
        phone.page.context.close()


def _hide(visitor: Visitor, best: list[Cell] = BEST) -> None:
    visitor.paint("good", *best)
    visitor.paint("bad", *BAD)
    visitor.play()


def _search_maze(visitor: Visitor) -> None:
    """Until it finds the painted patch, in the second episode."""
    visitor.choose(choose_world="point-maze")
    visitor.paint("good", (2, 8), rows=11, columns=11)
    visitor.paint("bad", (8, 2), rows=11, columns=11)
    visitor.fast()
    visitor.play()
    visitor.until_step(84)
    visitor.page.click("#play")
    visitor.page.wait_for_timeout(600)


def _watch_body(visitor: Visitor) -> None:
    """Until the walker walks beside its ghost; its behaviour is saved."""
    visitor.choose(choose_world="walker")
    visitor.page.click("[data-task=walk]")
    visitor.fast()
    visitor.play()
    visitor.until_step(340)
    visitor.page.click("#play")
    while visitor.step() < 392:  # late in the ghost's loop, when it is beside the body
        visitor.page.click("#step")
        visitor.page.wait_for_timeout(40)
    visitor.page.fill("#behaviour-name", "Walk")
    visitor.page.click("#behaviour-save")
    visitor.until(lambda: visitor.page.locator(".behaviour").count() == 1, "it is not saved")
    visitor.page.click(".toast button")
    visitor.page.evaluate("scrollTo(0, 0)")
    visitor.page.wait_for_timeout(600)


def _teach(visitor: Visitor, steps: int) -> None:
    """Answer good near the top right, else bad."""
    visitor.page.click("#mode-person")
    visitor.until(lambda: visitor.page.is_visible("#thumb-up"), "no thumbs")
    visitor.play()
    while visitor.step() < steps or visitor.body("waiting") != "true":
        if visitor.body("waiting") == "true":
            row, column = visitor.cell("at")
            visitor.page.keyboard.press("ArrowUp" if row + 8 - column <= 4 else "ArrowDown")
        visitor.page.wait_for_timeout(120)
    visitor.page.wait_for_timeout(500)


if __name__ == "__main__":
    main()
