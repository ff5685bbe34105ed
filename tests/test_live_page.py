"""The page in a real Chromium: mouse, touch and keyboard."""

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from PIL import Image
from playwright.sync_api import Browser, WebSocketRoute

from browsing import Cable, Visitor
from live import Served
from waiting import PATIENCE

Arrive = Callable[..., Visitor]
NEW = "#world=open-grid"  # of a link: a new run; without it a page takes the run over that is there
CORNER = [(0, 7), (0, 8), (1, 8)]
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


@pytest.fixture
def arrive(server: Served, chrome: Browser) -> Iterator[Arrive]:
    """Opens visitors in new windows; at the end there is no console error and no foreign request."""
    visitors: list[Visitor] = []

    def one(link: str = "", toured: bool = True, **window: Any) -> Visitor:
        context = chrome.new_context(**{"viewport": {"width": 1280, "height": 860}, **window})
        visitors.append(Visitor(context.new_page(), link or f"{server.link}{NEW}"))
        visitors[-1].arrive(toured)
        return visitors[-1]

    yield one
    for visitor in visitors:
        visitor.page.context.close()
    assert [wrong for visitor in visitors for wrong in visitor.wrong] == []


@pytest.mark.long
def test_a_painted_reward_is_found_and_when_repainted_followed(arrive: Arrive) -> None:
    visitor = arrive()
    visitor.paint("good", *CORNER)
    visitor.page.fill("#strength", "0.4")
    visitor.paint("good", (1, 7))  # nearly as good
    visitor.paint("bad", (4, 2), (4, 5))
    visitor.fast()
    visitor.play()
    seen = visitor.where(121, 180)  # it may explore from time to time
    assert sum(cell in CORNER for cell in seen) > 0.5 * len(seen), seen
    visitor.until(lambda: visitor.cell("best") in CORNER, "it does not know the best place")
    visitor.until(lambda: float(visitor.side("worth")) > 0.95, "what it would keep is worth less")
    visitor.until(
        lambda: "around the top right: the best" in (visitor.page.text_content("#says") or ""), "no word of it"
    )
    # The reward moves.
    visitor.paint("erase", *CORNER)
    visitor.page.fill("#strength", "1")
    visitor.paint("good", (8, 0), (8, 1))
    changed = visitor.step()
    visitor.until_step(changed + 250)

    def mostly_there() -> bool:  # it may explore from time to time
        newest = visitor.step()
        return sum(cell in [(8, 0), (8, 1)] for cell in visitor.where(newest - 59, newest)) > 30

    visitor.until(mostly_there, "it does not follow")
    visitor.until(lambda: visitor.cell("best") in [(8, 0), (8, 1)], "it does not know where it is")


@pytest.mark.long
def test_a_person_teaches_it_a_corner_by_keys_and_it_stays(arrive: Arrive) -> None:
    visitor = arrive()

    def far() -> int:
        row, column = visitor.cell("at")
        return 8 - row + column  # from the bottom left

    visitor.page.click("#mode-person")
    visitor.until(lambda: visitor.page.is_visible("#thumb-up"), "no thumbs")
    visitor.fast()
    visitor.play()
    answers = set[int]()

    def taught() -> bool:
        step = visitor.step()
        if visitor.body("waiting") == "true":
            assert "know this place" not in (visitor.page.text_content("#asks") or "")
            visitor.page.keyboard.press("ArrowUp" if far() <= 3 else "ArrowDown")
            answers.add(step)
            visitor.until_step(step + 1)
        return step >= 60

    visitor.until(taught, "it does not go on")
    assert len(answers) < 60  # it did not ask in known places
    visitor.page.uncheck("#wait")

    def stays() -> bool:
        newest = visitor.step()
        return all(8 - row + column <= 3 for row, column in [*visitor.where(newest - 19, newest), visitor.cell("best")])

    visitor.until(stays, "it leaves the corner")
    visitor.until(
        lambda: "I know this place" in (visitor.page.text_content("#asks") or ""), "it never says that it knows"
    )


def test_thumbs_slider_and_skip_are_told(arrive: Arrive) -> None:
    visitor = arrive()
    visitor.page.click("#mode-person")
    visitor.until(lambda: visitor.page.is_visible("#thumb-up"), "no thumbs")
    visitor.play()

    def answered(act: Callable[[], None]) -> str:
        visitor.until(lambda: visitor.body("waiting") == "true", "it does not ask")
        step = visitor.step()
        act()
        visitor.until(lambda: visitor.step() > step, "it does not go on")
        visitor.page.fill("#scrub", str(step))  # look back at that step
        visitor.until(lambda: visitor.body("step") == str(step), "it cannot be scrubbed")
        reward = visitor.side("reward")
        visitor.page.click("#live")
        return reward

    def by_slider() -> None:
        visitor.page.fill("#reward-slider", "0.5")
        visitor.page.click("#give")

    assert float(answered(lambda: visitor.page.click("#thumb-up"))) == 1
    assert float(answered(lambda: visitor.page.click("#thumb-down"))) == -1
    assert float(answered(by_slider)) == 0.5
    assert answered(lambda: visitor.page.click("#skip")) == ""


def test_two_methods_side_by_side_on_the_same_reward(arrive: Arrive) -> None:
    visitor = arrive()
    visitor.page.click("#random-task")
    visitor.choose(choose_second="greedy")
    visitor.fast()
    visitor.play()
    visitor.until_step(30)
    assert visitor.page.is_visible("#world-1")
    lost = [float(visitor.side("lost", which)) for which in (0, 1)]
    assert min(lost) > 0
    assert lost[0] != lost[1]
    titles = [visitor.page.text_content(f"#side-{which} .method") for which in (0, 1)]
    assert titles == ["usf-ucb", "greedy"]


def test_a_random_task_counts_before_the_server_has_drawn_it(arrive: Arrive) -> None:
    visitor, said, held = arrive(), list[Any](), list[Any]()

    def slow(socket: WebSocketRoute) -> None:
        behind = socket.connect_to_server()

        def from_page(text: str | bytes) -> None:
            said.append(json.loads(text))
            behind.send(text)

        def from_server(text: str | bytes) -> None:
            content = json.loads(text)
            drawn = content["is"] == "reward" and any(one["do"] == "task" for one in said)
            held.append(content) if drawn else socket.send(text)

        socket.on_message(from_page)
        behind.on_message(from_server)

    visitor.page.route_web_socket("**/ws*", slow)
    visitor.page.reload()
    visitor.until_step(0)
    visitor.page.click("#random-task")
    visitor.play()
    visitor.until_step(1)
    assert held
    said.clear()  # on a busy machine the reloaded page may have begun a run, too
    visitor.choose(choose_second="greedy")
    begun = [one["setup"]["reward"] for one in said if one["do"] == "begin"]
    assert begun
    assert all("task" in reward for reward in begun)


@pytest.mark.parametrize(
    ("world", "features", "model", "rows"),
    [
        ("maze", "laplacian-fine", "exact", 15),
        pytest.param("four-rooms", "laplacian", "network", 11, marks=pytest.mark.long),
        pytest.param("open-grid", "clusters", "network", 9, marks=pytest.mark.long),
    ],
)
def test_worlds_features_and_models_can_be_chosen(
    arrive: Arrive, world: str, features: str, model: str, rows: int
) -> None:
    visitor = arrive()
    chosen = {"choose_world": world, "choose_features": features, "choose_model": model}
    usual = {"choose_world": "open-grid", "choose_features": "laplacian-fine", "choose_model": "exact"}
    visitor.choose(**{name: value for name, value in chosen.items() if usual[name] != value})
    visitor.page.click("#random-task")
    visitor.fast()
    visitor.play()
    visitor.until_step(20)
    box = visitor.page.locator("#world").bounding_box()
    assert box is not None
    assert box["width"] == pytest.approx(box["height"], rel=0.02)  # all three are square
    assert max(visitor.cell("at")) < rows


@pytest.mark.long
def test_a_reward_painted_in_the_point_maze_is_found(arrive: Arrive, tmp_path: Path) -> None:
    visitor = arrive(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    page = visitor.page
    visitor.choose(choose_world="point-maze")
    assert page.input_value("#choose-features") == "learned"
    assert page.is_disabled("#choose-features")
    assert page.is_disabled("#choose-model")
    assert "70 decisions" in (page.text_content("#about-world") or "")
    visitor.paint("good", (2, 8), rows=11, columns=11)  # 2 × 2 cells
    visitor.fast()
    visitor.play()
    visitor.until_step(3)
    painting = "new URLSearchParams(location.hash.slice(1)).get('painting') || ''"
    visitor.until(lambda: page.evaluate(painting).count("2s~4") == 4, "the link does not hold 4 × 4 squares")
    visitor.until_step(260)
    visitor.pause()
    page.fill("#scrub", "260")
    visitor.until(lambda: visitor.body("step") == "260", "it cannot be scrubbed")
    row, column = visitor.cell("at")
    assert row < 7, "not in the room"
    assert column > 12
    assert visitor.side("mode") in ("stays", "goes")
    assert visitor.side("episode") == "4"
    assert "episode 4" in (page.text_content("#counter") or "")
    assert float(page.text_content("figure:has(#curve-return) .now") or "0") > 10
    assert page.evaluate(CUT) == []
    page.click("#export-open")
    with page.expect_download() as download:
        page.click("#export-png")
    download.value.save_as(tmp_path / "maze.png")
    assert (tmp_path / "maze.png").read_bytes().startswith(b"\x89PNG")
    # A reload gives the same run, and the link the same set-up in another window.
    address, run = page.evaluate("location.href"), visitor.body("run")
    page.reload()
    visitor.until(lambda: visitor.body("run") == run and visitor.step() >= 260, "a reload loses the run")
    other = page.context.new_page()
    other.goto(address)
    second = Visitor(other, visitor.link)
    second.until(lambda: second.body("run") and second.body("run") != run, "the link begins no run")
    second.until(lambda: other.evaluate("location.hash") == page.evaluate("location.hash"), "another set-up")
    visitor.until(lambda: page.is_visible("#banner button"), "it does not say that another page has taken over")
    page.click("#banner button")
    visitor.until(lambda: visitor.body("run") not in ("", run) and visitor.step() == 0, "it does not begin again")
    # Back on a grid, everything is as before.
    visitor.choose(choose_world="open-grid")
    assert page.input_value("#choose-features") == "laplacian-fine"
    assert page.input_value("#choose-model") == "exact"
    assert not page.is_disabled("#choose-features")
    assert "episode" not in (page.text_content("#counter") or "")


@pytest.mark.long
def test_in_the_point_maze_the_dot_glides_and_does_not_jump(arrive: Arrive) -> None:
    visitor = arrive()
    visitor.choose(choose_world="point-maze")
    visitor.page.fill("#speed", "0")  # a step a second
    visitor.page.click("#random-task")
    for step in range(1, 9):  # it has speed
        visitor.page.click("#step")
        visitor.until_step(step)
    clock = visitor.page.clock  # from here on the page's time goes on by run_for only
    clock.install()
    clock.pause_at(time.time() + 60)

    def ninth() -> bool:
        clock.run_for(20)
        return visitor.step() == 9

    visitor.page.click("#step")
    visitor.until(ninth, "no step")
    pictures = set()
    for _ in range(20):
        pictures.add(visitor.page.evaluate("document.getElementById('world').toDataURL()"))
        clock.run_for(20)
    assert len(pictures) > 4  # of one step


@pytest.mark.long
def test_a_person_teaches_in_the_point_maze_by_keyboard_alone(arrive: Arrive) -> None:
    visitor = arrive()
    page = visitor.page
    page.focus("#setup-open")
    page.keyboard.press("Enter")
    page.focus("#choose-world")
    before = visitor.body("run")
    page.keyboard.press("p")  # the world with this letter
    visitor.until(lambda: visitor.body("run") != before and visitor.step() == 0, "no new run")
    page.keyboard.press("Escape")
    page.focus("#world")
    assert "11 rows, 11 columns" in (page.get_attribute("#world", "aria-label") or "")
    for _ in range(12):
        page.keyboard.press("ArrowUp")
        page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    assert page.text_content("#announce") == "painted row 1, column 1: +1.0"
    page.focus("#mode-person")
    page.keyboard.press("Enter")
    visitor.until(lambda: page.is_visible("#thumb-up"), "no thumbs")
    page.keyboard.press("Tab")
    page.keyboard.press("p")
    for _ in range(4):
        visitor.until(lambda: visitor.body("waiting") == "true", "it does not ask")
        step = visitor.step()
        page.keyboard.press("ArrowUp")
        visitor.until_step(step + 1)
    assert visitor.step() >= 5
    assert page.text_content("figure:has(#curve-told) .now") == "4"


@pytest.mark.long
def test_a_body_is_given_a_hidden_task_then_thumbs_and_its_behaviour_is_kept(arrive: Arrive, tmp_path: Path) -> None:
    visitor = arrive()
    page, axe = visitor.page, Axe()

    def check(what: str) -> None:
        found = axe.run(page).response["violations"]
        assert [f"{v['id']}: {v['nodes'][0]['html'][:120]}" for v in found] == [], what

    def pressed(name: str) -> bool:
        return page.get_attribute(name, "aria-pressed") == "true"

    visitor.choose(choose_world="cheetah")
    visitor.until(lambda: page.is_visible("[data-task=walk]"), "no tasks")
    assert not page.is_visible("#brush-good")
    # A hidden task, chosen and changed by sliders, that the link keeps.
    page.click("[data-task=walk]")
    page.click("[data-task=run]")
    page.fill("#wish-height", "-0.5")
    visitor.until(lambda: pressed("[data-task=run]") and not pressed("[data-task=walk]"), "the task is not chosen")
    visitor.until(lambda: "painting=" in page.url, "the link does not hold the reward")
    visitor.fast()
    visitor.play()
    visitor.until_step(40)
    visitor.pause()
    assert int(visitor.side("told")) >= 40
    assert " m/s · torso " in (page.get_attribute("#world", "aria-label") or "")
    assert page.locator(".bars li").count() == 5
    drawn = "document.querySelector('#world').getContext('2d').getImageData(0, 0, 300, 300).data"
    assert page.evaluate(f"new Set({drawn}).size") > 3
    check("a hidden task")
    # Its behaviour is saved, survives a reload, and is shown.
    page.fill("#behaviour-name", "My <b>run</b>")
    page.click("#behaviour-save")
    visitor.until(lambda: page.locator(".behaviour").count() == 1, "it is not saved")
    page.reload()
    visitor.until(lambda: visitor.body("connected") == "true" and visitor.step() >= 40, "the run is not resumed")
    visitor.until(lambda: page.locator(".behaviour").count() == 1, "it was forgotten")
    assert page.text_content(".behaviour") == "My <b>run</b>"
    page.click(".behaviour")
    visitor.until(lambda: page.is_visible("#behaviour-stop"), "it is not shown")
    assert "My <b>run</b>" in (page.text_content("#behaviour-shown") or "")
    page.click("#step")
    visitor.until(lambda: visitor.side("mode") == "shows", "the behaviour does not act")
    page.click("#behaviour-stop")
    visitor.until(lambda: not page.is_visible("#behaviour-stop"), "it does not stop")
    # To a file and back; a hostile file is refused.
    with page.expect_download() as download:
        page.click("#behaviours-save")
    download.value.save_as(tmp_path / "kept.json")
    kept = json.loads((tmp_path / "kept.json").read_text())
    [one] = kept["behaviours"]
    assert (one["model"], len(one["z"])) == ("cheetah-fb", 50)
    (tmp_path / "wrong.json").write_text(
        json.dumps({**kept, "behaviours": [{**one, "name": "other", "z": ["1"] * 50}]})
    )
    page.set_input_files("#behaviours-file", tmp_path / "wrong.json")
    visitor.until(lambda: "cannot be read" in (page.text_content("#toasts") or ""), "the file is not refused")
    assert page.locator(".behaviour").count() == 1
    (tmp_path / "good.json").write_text(json.dumps({**kept, "behaviours": [{**one, "name": "other"}]}))
    page.set_input_files("#behaviours-file", tmp_path / "good.json")
    visitor.until(lambda: page.locator(".behaviour").count() == 2, "the file is not read")
    # An animation and all steps.
    for name, file in (("#export-gif", "body.gif"), ("#export-json", "steps.json"), ("#export-png", "body.png")):
        page.click("#export-open")
        with page.expect_download() as download:
            page.click(name)
        download.value.save_as(tmp_path / file)
    with Image.open(tmp_path / "body.gif") as picture:
        assert picture.size == (480, 270)
        assert getattr(picture, "n_frames", 1) == -(-(visitor.step() + 1) // 2)
        picture.seek(picture.n_frames - 1)  # type: ignore[attr-defined]
        assert len(np.unique(np.asarray(picture.convert("RGB")).reshape(-1, 3), axis=0)) > 4
    assert len(json.loads((tmp_path / "steps.json").read_text())["runs"][0]["steps"]) == visitor.step()
    # Thumbs by button and by key.
    page.click("#mode-person")
    visitor.until(lambda: page.is_visible("#hold-up"), "no thumbs")
    page.select_option("#hold-silence", "nothing")  # only thumbs count
    visitor.play()
    visitor.until_step(12)
    page.hover("#hold-up")
    page.mouse.down()
    visitor.until(lambda: pressed("#hold-up") and int(visitor.side("told")) > 0, "the thumb does not count")
    told = int(visitor.side("told"))
    visitor.until(lambda: int(visitor.side("told")) > told, "a held thumb does not go on")
    page.mouse.up()
    visitor.until(lambda: not pressed("#hold-up"), "the thumb is held on")
    visitor.until(lambda: "You said good for" in (page.text_content("#credited") or ""), "no word of it")
    page.keyboard.down("ArrowDown")
    visitor.until(lambda: pressed("#hold-down"), "the key does not count")
    visitor.until(lambda: "You said bad for" in (page.text_content("#credited") or ""), "no word of it")
    page.keyboard.up("ArrowDown")
    visitor.until(lambda: not pressed("#hold-down"), "the key is held on")
    visitor.pause()
    check("thumbs")
    # The better of two clips.
    page.click("#compare-clips")
    number = "document.querySelector('#clips').dataset.number"
    visitor.until(lambda: page.evaluate(number) == "1", "no clips")
    assert " clip: it " in (page.get_attribute("#clip-left-view", "aria-label") or "")
    check("two clips")
    page.keyboard.press("ArrowLeft")
    visitor.until(lambda: "learned from 1 answer." in (page.text_content("#clips-count") or ""), "no answer")
    visitor.until(lambda: page.evaluate(number) == "2", "no other clips")
    page.click("#clip-right")
    visitor.until(lambda: "learned from 2 answers." in (page.text_content("#clips-count") or ""), "no second answer")
    page.keyboard.press("Escape")
    assert not page.is_visible("#clips")
    page.emulate_media(reduced_motion="reduce")  # colours change at once
    page.set_viewport_size({"width": 390, "height": 844})
    page.click("#theme")
    check("on a phone, dark")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.long
def test_a_person_teaches_the_walker_to_stand_by_thumbs(arrive: Arrive) -> None:
    """Up while the torso is high, down while it is low: what a person sees, through the real keys."""
    visitor = arrive()
    page, heights, held = visitor.page, list[float](), [""]
    visitor.choose(choose_world="walker")
    page.click("#mode-person")
    visitor.until(lambda: page.is_visible("#hold-up"), "no thumbs")
    visitor.play()

    def stays_up() -> bool:
        found = re.search(r"torso ([\d.]+) m high", page.get_attribute("#world", "aria-label") or "")
        assert found is not None
        heights.append(float(found[1]))
        wanted = "ArrowUp" if heights[-1] > 0.9 else "ArrowDown"
        if wanted != held[0]:
            if held[0]:
                page.keyboard.up(held[0])
            page.keyboard.down(wanted)
            held[0] = wanted
        return len(heights) > 100 and min(heights[-40:]) > 0.9 and "high" in visitor.side("likes")

    visitor.until(stays_up, "it does not stay up")
    page.keyboard.up(held[0])
    visitor.until(lambda: "its torso" in visitor.side("ghost"), "no ghost of what it would keep")
    assert "A ghost shows" in (page.get_attribute("#world", "aria-label") or "")
    page.keyboard.press("g")
    visitor.until(lambda: visitor.side("ghost") == "" and not page.is_checked("#ghost-on"), "the ghost stays")
    visitor.until(lambda: "high" in (page.text_content(".likes-text") or ""), "no word of it")


def test_another_world_forgets_the_places_under_the_brush(arrive: Arrive, server: Served) -> None:
    with Cable(server.port) as cable:
        visitor = arrive(f"http://127.0.0.1:{cable.port}/?token={server.token}#world=point-maze")
        visitor.page.mouse.move(*visitor.point((10, 9), 11, 11))  # a place with a number that the grid does not have
        visitor.page.evaluate("location.hash = '#world=open-grid'")
        visitor.until(lambda: visitor.body("world") == "open-grid" and visitor.step() == 0, "no other world")
        before = visitor.body("run")
        cable.cut()
        visitor.until(lambda: visitor.body("connected") == "false", "it does not notice")
        visitor.page.evaluate(
            "const s = document.getElementById('choose-world'); s.value = 'maze'; s.dispatchEvent(new Event('change'))"
        )
        visitor.until(lambda: visitor.body("run") == "", "the old run is kept")
        cable.mend()
        visitor.until(lambda: visitor.body("run") not in ("", before) and visitor.body("world") == "maze", "no maze")
        visitor.until_step(0)
    visitor.wrong = [said for said in visitor.wrong if "ERR_CONNECTION" not in said and "WebSocket" not in said]


ONE = {"name": "one", "world": "cheetah", "model": "cheetah-fb", "z": [0.5] * 50, "likes": ""}


def file_of(*behaviours: Any) -> bytes:
    return json.dumps({"format": "zscout-behaviours-1", "behaviours": behaviours}).encode()


HOSTILE = {
    b"": "not JSON",
    bytes(range(256)): "not JSON",
    b"null": "format",
    b"[" * 100_000 + b"]" * 100_000: "cannot be read",
    b" " * 1_000_001: "larger than 1 MB",
    file_of(ONE).replace(b"0.5", b"1e999"): "within ±1000",
    file_of({**ONE, "name": " "}): "a name",
    file_of(None): "not a behaviour",
    file_of(*[ONE] * 101): "more than 100",
}


def test_a_hostile_file_of_behaviours_changes_nothing_and_what_is_refused_is_not_shown(
    arrive: Arrive, server: Served, tmp_path: Path
) -> None:
    visitor = arrive(f"{server.link}#world=cheetah")
    page, file = visitor.page, tmp_path / "file.json"

    def load(content: bytes, says: str) -> None:
        file.write_bytes(content)
        page.set_input_files("#behaviours-file", file)
        visitor.until(lambda: says in (page.text_content("#toasts .toast:last-child") or ""), f"no word of {says}")

    for content, says in HOSTILE.items():
        load(content, says)
        assert page.locator(".behaviour").count() == 0, says
    load(file_of(ONE, {**ONE, "name": "<b>short</b>", "z": [1]}), "Loaded 2 behaviours.")
    page.click(".behaviour >> nth=0")
    visitor.until(lambda: "“one”" in (page.text_content("#behaviour-shown") or ""), "it is not shown")
    page.click(".behaviour >> nth=1")
    visitor.until(lambda: "list of 50" in (page.text_content("#toasts .toast:last-child") or ""), "it is not refused")
    assert "“one”" in (page.text_content("#behaviour-shown") or "")
    assert page.locator(".behaviour[aria-pressed=true]").all_text_contents() == ["one"]
    load(file_of(*({**ONE, "name": f"{n}"} for n in range(99))), "1 older one is gone")
    page.click("#step")
    visitor.until_step(1)
    page.click("#export-open")
    with page.expect_download() as download:
        page.click("#export-gif")
    download.value.save_as(tmp_path / "one.gif")
    with Image.open(tmp_path / "one.gif") as picture:
        assert picture.size == (480, 270)


def test_a_quadruped_has_its_own_tasks_and_words_and_its_curves_in_sight(arrive: Arrive) -> None:
    visitor = arrive(viewport={"width": 1280, "height": 800})
    page = visitor.page
    visitor.choose(choose_world="quadruped")
    visitor.until(lambda: page.is_visible("[data-task=stand]"), "no tasks")
    page.click("[data-task=stand]")
    visitor.play()
    visitor.until_step(5)
    label = page.get_attribute("#world", "aria-label") or ""
    assert re.search(r"m/s · (upside down|on its side|upright) · reward", label)  # neither pitch nor height
    page.evaluate("scrollTo(0, 0)")
    bar, curve = page.locator(".transport").bounding_box(), page.locator(".curve").first.bounding_box()
    assert bar is not None
    assert curve is not None
    assert curve["y"] + curve["height"] <= bar["y"]
    assert not visitor.wrong


@pytest.mark.long
def test_when_it_is_sure_it_says_so_asks_no_more_and_goes_on_by_one_key(chrome: Browser, server: Served) -> None:
    """The server's messages are altered on their way: to be sure takes a minute of good answers."""
    context = chrome.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    visitor = Visitor(context.new_page(), f"{server.link}{NEW}")
    page, axe, sure, sent = visitor.page, Axe(), [False], []

    def altered(socket: WebSocketRoute) -> None:
        behind = socket.connect_to_server()

        def from_page(text: str | bytes) -> None:
            sent.append(json.loads(text)["do"])
            if sent[-1] == "learn":
                sure[0] = False
            behind.send(text)

        def from_server(text: str | bytes) -> None:
            content = json.loads(text)
            if content["is"] == "frame" and sure[0]:
                content["sides"][0] |= {"sure": True, "knows": "At most 4 % could still be gained."}
            if content["is"] == "preferred":
                content["done"] = sure[0]
            socket.send(json.dumps(content))

        socket.on_message(from_page)
        behind.on_message(from_server)

    def check(what: str) -> None:
        found = axe.run(page).response["violations"]
        assert [f"{v['id']}: {v['nodes'][0]['html'][:120]}" for v in found] == [], what

    page.route_web_socket("**/ws*", altered)
    visitor.arrive()
    visitor.choose(choose_world="cheetah")
    page.click("#mode-person")
    visitor.until(lambda: page.is_visible("#hold-up"), "no thumbs")
    page.click("#step")
    visitor.until_step(1)
    assert "not known yet" in (page.text_content(".left") or "")
    assert not page.is_visible("#done")
    sure[0] = True
    page.click("#step")
    visitor.until(lambda: page.is_visible("#done"), "it does not say that it is sure")
    assert page.text_content("#done-text") == "At most 4 % could still be gained. I ask no more."
    check("it is sure")
    page.keyboard.press("m")
    page.click("#step")
    visitor.until(lambda: not page.is_visible("#done"), "it does not go on")
    assert sent.count("learn") == 1
    # The same with clips: it asks for no other pair until it is told to.
    page.click("#compare-clips")
    visitor.until(lambda: page.get_attribute("#clips", "data-number") == "1", "no clips")
    sure[0] = True
    page.keyboard.press("ArrowLeft")
    visitor.until(lambda: page.is_visible("#clips-more"), "it asks on")
    assert "asks no more" in (page.text_content("#clips-count") or "")
    assert (sent.count("clips"), page.is_disabled("#clip-left")) == (1, True)
    check("it is sure, in the clips")
    page.set_viewport_size({"width": 390, "height": 844})
    check("it is sure, on a phone")
    page.keyboard.press("Enter")  # the button has the focus
    visitor.until(lambda: page.get_attribute("#clips", "data-number") == "2", "no other clips")
    assert (sent.count("learn"), page.is_disabled("#clip-left")) == (2, False)
    assert visitor.wrong == []
    context.close()


def test_a_lost_connection_is_taken_up_again_where_it_was(arrive: Arrive, server: Served) -> None:
    with Cable(server.port) as cable:
        _cut_and_mend(arrive(f"{server.link}{NEW}".replace(str(server.port), str(cable.port))), cable)


def _cut_and_mend(visitor: Visitor, cable: Cable) -> None:
    visitor.paint("good", (0, 0), (1, 0))
    visitor.fast()
    visitor.play()
    visitor.until_step(20)
    run = visitor.body("run")
    cable.cut()
    visitor.until(lambda: visitor.body("connected") == "false", "it has not noticed")
    stood = visitor.step()
    visitor.until(lambda: visitor.page.is_visible("#banner"), "nothing is said of it")
    visitor.paint("good", (0, 1), (1, 1))  # meanwhile
    cable.mend()
    visitor.until(lambda: visitor.body("connected") == "true", "it does not come back")
    visitor.until_step(stood + 20)
    assert visitor.body("run") == run
    visitor.page.reload()
    visitor.until(lambda: visitor.body("run") == run and visitor.step() > stood, "a reload loses the run")
    visitor.until(lambda: visitor.body("playing") == "true", "it stands still after a reload")
    cut = ("WebSocket connection", "Failed to load resource")
    visitor.wrong = [wrong for wrong in visitor.wrong if not wrong.startswith(cut)]


def test_a_second_page_takes_the_run_over_and_the_first_says_so(arrive: Arrive, server: Served) -> None:
    first = arrive()
    first.paint("good", *CORNER)
    first.play()
    first.until_step(5)
    second = arrive(server.link)
    first.until(lambda: "another tab" in (first.page.text_content("#banner") or ""), "it does not say so")
    assert second.body("run") == first.body("run")
    second.until_step(first.step() + 5)  # it plays on
    seen = second.step()
    first.page.click("#banner button")
    first.until(lambda: first.body("connected") == "true" and first.step() > seen, "it does not take it back")
    second.until(lambda: "another tab" in (second.page.text_content("#banner") or ""), "it does not say so")


def test_on_a_phone_nothing_is_cut_and_a_finger_paints(arrive: Arrive) -> None:
    visitor = arrive(**PHONE)
    page = visitor.page
    page.locator("#world").scroll_into_view_if_needed()
    page.touchscreen.tap(*visitor.point((0, 0)))
    visitor.until(lambda: page.get_attribute("#stage", "data-blank") == "false", "a finger does not paint")
    page.tap("#play")  # something is painted, so it plays at once
    visitor.until_step(5)
    wide = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide[0] <= wide[1] == 390
    for name in ("play", "step", "reset", "brush-good", "world", "says", "estimate", "doubt", "after", "setup-open"):
        box = page.locator(f"#{name}").bounding_box()
        assert box is not None, name
        assert box["x"] >= 0, name
        assert box["x"] + box["width"] <= 390, name
    visitor.pause()
    visitor.choose(choose_world="point-maze")
    page.tap("#step")
    visitor.until_step(1)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    for name in (".method", ".mode", ".compare", ".says", ".readout"):
        box = page.locator(f"#side-0 {name}").bounding_box()
        assert box is not None, name
        assert box["x"] >= 0, name
        assert box["x"] + box["width"] <= 390, name


def test_by_keyboard_alone(arrive: Arrive) -> None:
    visitor = arrive()
    page = visitor.page
    page.focus("#world")
    for _ in range(9):
        page.keyboard.press("ArrowUp")
        page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowDown")
    page.keyboard.press(" ")
    visitor.until_confirmed()
    page.keyboard.press("Tab")
    page.keyboard.press("p")
    visitor.until_step(3)
    page.keyboard.press("p")
    visitor.until(lambda: visitor.body("playing") == "false", "p does not pause")
    step = visitor.step()
    page.keyboard.press("s")
    visitor.until_step(step + 1)
    page.keyboard.press("r")
    visitor.until(lambda: visitor.step() == 0, "r does not reset")
    page.keyboard.press("p")
    page.fill("#speed", "30")
    visitor.until_step(120)
    visitor.until(lambda: visitor.cell("best") in [(0, 0), (1, 0)], "it does not find what was painted")


@pytest.mark.long
def test_what_is_exported_can_be_used(arrive: Arrive, tmp_path: Path) -> None:
    visitor = arrive(accept_downloads=True)
    page = visitor.page
    visitor.paint("good", *CORNER)
    visitor.choose(choose_second="thompson")
    visitor.fast()
    visitor.play()
    visitor.until_step(40)
    visitor.pause()
    saved = {}
    for kind in ("json", "png"):
        page.click("#export-open")
        with page.expect_download() as download:
            page.click(f"#export-{kind}")
        saved[kind] = tmp_path / download.value.suggested_filename
        download.value.save_as(saved[kind])
    picture = saved["png"].read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert int.from_bytes(picture[16:20]) >= 1000  # pixels wide
    written = json.loads(saved["json"].read_text())
    assert [(run["method"], len(run["steps"])) for run in written["runs"]] == [
        ("usf-ucb", visitor.step()),
        ("thompson", visitor.step()),
    ]
    # The link gives the same set-up in another window.
    address = page.evaluate("location.href")
    other = page.context.new_page()
    other.goto(address)
    second = Visitor(other, visitor.link)
    second.until(lambda: second.body("run") not in ("", visitor.body("run")) and second.step() == 0, "no other run")
    assert other.text_content("#side-1 .method") == "thompson"
    second.until(lambda: other.evaluate("location.hash") == page.evaluate("location.hash"), "another set-up")


def test_a_link_on_another_site_opens_the_page(chrome: Browser, server: Served, tmp_path: Path) -> None:
    """As from a web terminal or a mail: the cookie must be accepted."""
    (tmp_path / "mail.html").write_text(f"<a href='{server.link}'>your page</a>")
    there = ThreadingHTTPServer(("localhost", 0), partial(_Silent, directory=str(tmp_path)))
    with there:
        threading.Thread(target=there.serve_forever, daemon=True).start()
        page = chrome.new_context().new_page()
        page.set_default_timeout(1000 * PATIENCE)
        page.goto(f"http://localhost:{there.server_port}/mail.html")
        page.click("a")
        page.wait_for_selector("#world")
        page.context.close()
        there.shutdown()


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


def test_a_hostile_link_is_only_text(arrive: Arrive, server: Served) -> None:
    visitor = arrive(f"{server.link}#world=<img src=x onerror=alert(1)>&methods=%3Cscript%3E&reward=%00")
    assert visitor.page.locator("#toasts img, #toasts script, main img, main script").count() == 0
    visitor.until(lambda: visitor.page.is_visible("#world"), "no page")


def test_the_first_visit_is_shown_around_once(arrive: Arrive) -> None:
    visitor = arrive(toured=False)
    visitor.until(lambda: visitor.page.is_visible("#hint"), "no tour")
    visitor.page.click("#setup-open")
    assert not visitor.page.is_visible("#hint")  # it steps aside
    visitor.page.click("#setup-close")
    assert visitor.page.is_visible("#hint")
    for _ in range(10):
        if not visitor.page.is_visible("#hint"):
            break
        visitor.page.click("#hint-next")
    assert not visitor.page.is_visible("#hint")
    visitor.page.reload()
    visitor.until_step(0)  # the first frame is drawn, with the tour if there is one
    assert not visitor.page.is_visible("#hint")


@pytest.mark.parametrize(
    ("theme", "places"),
    [("light", "some"), *(pytest.param(theme, "all", marks=pytest.mark.long) for theme in ("light", "dark"))],
)
def test_axe_finds_nothing_serious(arrive: Arrive, theme: Any, places: str) -> None:
    visitor = arrive(color_scheme=theme)
    page, axe = visitor.page, Axe()

    def check(what: str) -> None:
        found = axe.run(page).response["violations"]
        serious = [f"{v['id']}: {v['nodes'][0]['html'][:120]}" for v in found if v["impact"] in ("serious", "critical")]
        assert serious == [], what

    check("at first")
    visitor.paint("good", *CORNER)
    visitor.play()
    visitor.until_step(10)
    check("playing")
    visitor.choose(choose_second="greedy")
    page.click("#setup-open")
    check("two methods, the set-up open")
    page.click("#setup-close")
    if places == "some":
        return
    page.click("#export-open")
    check("the export menu")
    page.keyboard.press("Escape")
    page.click("#help")
    check("the help")
    page.keyboard.press("Escape")
    page.click("#mode-person")
    visitor.until(lambda: page.is_visible("#thumb-up"), "no thumbs")
    check("a person's turn")
    visitor.choose(choose_world="point-maze")
    check("the point maze, a person's turn")
    page.click("#mode-hidden")
    visitor.until(lambda: page.is_visible("#brush-good"), "no brush")
    page.click("#random-task")
    visitor.play()
    visitor.until_step(5)
    page.click("#export-open")
    check("the point maze, the export menu")
    page.keyboard.press("Escape")
    page.set_viewport_size({"width": 390, "height": 844})
    check("on a phone")
    other = page.context.browser.new_page() if page.context.browser else None
    assert other is not None
    other.set_default_timeout(1000 * PATIENCE)
    other.goto(visitor.link.split("?")[0])
    assert axe.run(other).response["violations"] == []
    other.close()


CUT = """() => {
  const foot = document.querySelector(".transport").getBoundingClientRect().top;
  const cut = [];
  for (const e of document.querySelectorAll("body *")) {
    if (!e.checkVisibility({ visibilityProperty: true }) || e.closest("svg, select, .unseen")) continue;
    if (![...e.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.data.trim())) continue;
    const box = e.getBoundingClientRect();
    const wide = getComputedStyle(e).display !== "inline" && e.scrollWidth > e.clientWidth + 1;
    const low = !e.closest(".transport") && box.bottom > foot + 1;
    if (wide || low || box.left < -1 || box.right > innerWidth + 1) cut.push(e.textContent.trim());
  }
  return cut;
}"""


@pytest.mark.parametrize("second", ["", pytest.param("greedy", marks=pytest.mark.long)])
def test_at_1280_by_900_no_words_are_cut_and_a_single_cell_is_explained(arrive: Arrive, second: str) -> None:
    visitor = arrive(viewport={"width": 1280, "height": 900})
    if second:
        visitor.choose(choose_second=second)
    visitor.paint("good", (4, 4))
    visitor.fast()
    visitor.play()
    visitor.until_step(40)
    visitor.pause()
    assert visitor.page.evaluate(CUT) == []
    assert visitor.page.locator(".curve p").first.is_visible()
    note = visitor.page.text_content("#attainable") or ""
    assert note == "It cannot stand still except at a wall, so the best it can collect is 0.50 a step, not 1.00."
    if not second:
        assert (visitor.page.text_content(".curve .now") or "").endswith(" of 0.50")
    visitor.paint("good", (4, 5))
    visitor.until(lambda: not visitor.page.is_visible("#attainable"), "two neighbours can be collected at every step")
    assert "it is after" not in (visitor.page.text_content("body") or "")


@pytest.mark.long
def test_curves_go_on_where_nobody_is_asked(arrive: Arrive) -> None:
    visitor = arrive(viewport={"width": 1280, "height": 900})
    visitor.page.click("#mode-person")
    visitor.until(lambda: visitor.page.is_visible("#thumb-up"), "no thumbs")
    visitor.fast()
    visitor.play()
    now = visitor.page.locator(".curve .now").first

    def answered() -> bool:
        if visitor.body("waiting") == "true":
            visitor.page.keyboard.press("ArrowUp")
        return (now.text_content() or "").startswith("expects +")

    visitor.until(answered, "it does not say what it expects")
    assert visitor.page.evaluate(CUT) == []
