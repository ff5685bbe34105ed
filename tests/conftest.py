"""What all tests share: one thread each, reproducible examples, and what is dear, made once for each worker."""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is there, and for the programs that tests start

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

import pytest
import torch
from hypothesis import settings

from live import Served, served
from zscout import USFA, ExactModel
from zscout.features import grid_clusters, laplacian
from zscout.lab.arenas.grid import GridArena
from zscout.worlds import open_grid

if TYPE_CHECKING:
    from playwright.sync_api import Browser

torch.set_num_threads(1)
for profile, examples in (("short", 15), ("long", 100)):
    settings.register_profile(profile, deadline=None, derandomize=True, max_examples=examples)
settings.load_profile("short")

# The files that take longest begin first, so that no worker is left with one at the end.
LONGEST = (
    *(
        "test_docs",
        "test_live_page",
        "test_claims",
        "test_paper",
        "test_live_server",
        "test_live_run",
        "test_attacks",
        "test_agent",
    ),
    *("test_traces", "test_offsets", "test_watching", "test_usfa", "test_live_rehearsal", "test_live_point_maze"),
    *("test_transfer_lab", "test_body", "test_body_training", "test_store", "test_training", "test_bench"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path.stem, len(order)))


@pytest.fixture(scope="session")
def server() -> Iterator[Served]:
    """A live server; at the end it still runs, and has written no error."""
    with served() as running:
        yield running
        assert running.process.poll() is None
    assert running.said == []
    assert running.process.returncode == 0


@pytest.fixture(scope="module")  # while it runs, the thread has an event loop, which other files need for themselves
def chrome() -> Iterator["Browser"]:
    from browsing import browser  # not with the oldest dependencies, see minimum.py

    with browser() as running:
        yield running


@pytest.fixture(scope="session")
def clusters_model() -> ExactModel:
    return ExactModel(open_grid(), grid_clusters(open_grid()))


@pytest.fixture(scope="session")
def laplacian_model() -> ExactModel:
    return ExactModel(open_grid(), laplacian(open_grid()))


@pytest.fixture(scope="session")
def slippery_model() -> ExactModel:
    return ExactModel(open_grid(slip=0.2), laplacian(open_grid()))


@pytest.fixture(scope="session")
def clusters_network() -> USFA:
    """The shipped network, with its tables once they were asked for. Not to be changed."""
    return cast(USFA, GridArena(features="clusters", model="network").ground.model)


@pytest.fixture(scope="session")
def laplacian_network() -> USFA:
    return cast(USFA, GridArena(model="network").ground.model)


@pytest.fixture
def rng() -> torch.Generator:
    return torch.Generator().manual_seed(0)
