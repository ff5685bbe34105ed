"""What all tests share: one thread each (they run in parallel) and reproducible hypothesis examples."""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is there, and for the programs that tests start

import pytest
import torch
from hypothesis import settings

from zscout import ExactModel
from zscout.features import grid_clusters, laplacian
from zscout.worlds import open_grid

torch.set_num_threads(1)
settings.register_profile("zscout", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("zscout")


@pytest.fixture(scope="session")
def clusters_model() -> ExactModel:
    return ExactModel(open_grid(), grid_clusters(open_grid()))


@pytest.fixture(scope="session")
def laplacian_model() -> ExactModel:
    return ExactModel(open_grid(), laplacian(open_grid()))


@pytest.fixture(scope="session")
def slippery_model() -> ExactModel:
    return ExactModel(open_grid(slip=0.2), laplacian(open_grid()))


@pytest.fixture
def rng() -> torch.Generator:
    return torch.Generator().manual_seed(0)
