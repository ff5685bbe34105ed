"""User code by ``module:name``: methods, models and features from ``sys.path`` or the working directory."""

import hashlib
import importlib
import inspect
import sys
from pathlib import Path
from types import CodeType
from typing import Any

import torch
from gymnasium.spaces import Discrete

from zscout.base.edge import as_table
from zscout.base.types import BehaviorModel
from zscout.models.usfa.judging import Tabulated
from zscout.transfer.methods import METHODS, Factory, Method


def is_plugin(name: str) -> bool:
    """Whether a name is ``module:name``."""
    module, _, attribute = name.partition(":")
    return bool(module and attribute) and all(part.isidentifier() for part in (*module.split("."), attribute))


def imported(name: str) -> Any:
    """The object under ``module:name``."""
    module, _, attribute = name.partition(":")
    here = str(Path.cwd())
    sys.path.insert(0, here)  # user code may be in the working directory, however zscout was started
    try:
        home = importlib.import_module(module)
    except (Exception, SystemExit) as error:  # user code may raise anything
        raise ValueError(f"{name} cannot be imported: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(here)
    if not hasattr(home, attribute):
        raise ValueError(f"{name}: the module {module} has no {attribute}")
    return getattr(home, attribute)


def source_digest(name: str) -> str:
    """Digest of the file that defines ``module:name``; runs of changed code are run again."""
    imported(name)
    file = inspect.getsourcefile(sys.modules[name.partition(":")[0]])
    return (digest_of_code(Path(file).read_bytes()) if file else hashlib.sha256(name.encode()).digest()).hex()


def digest_of_code(source: bytes) -> bytes:
    """Digest of a module's bytecode, names and constants, without line numbers and docstrings."""
    digest = hashlib.sha256()
    _add(compile(source, "", "exec", dont_inherit=True, optimize=2), digest)  # 2: without docstrings
    return digest.digest()


def _add(code: CodeType, digest: "hashlib._Hash") -> None:
    digest.update(code.co_code)
    for part in (code.co_name, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars):
        digest.update(repr(part).encode())
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _add(constant, digest)
        else:  # sets print in an order that changes between processes
            ordered = sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant
            digest.update(repr(ordered).encode())


def method_factory(name: str) -> Factory:
    """One of METHODS; or for ``module:name`` a Method, or a function of settings that returns one.

    Such a function may also take ``dim``, ``noise``, ``norm_bound`` and ``task`` by name, as those of METHODS do.
    """
    if not is_plugin(name):
        return METHODS[name]
    found = imported(name)
    if isinstance(found, Method):
        return Factory(lambda: found)
    if isinstance(found, Factory):
        return found
    if callable(found):
        return Factory(found)
    raise ValueError(f"{name} must be a Method or a function that returns one, got {type(found).__name__}")


def plugin_grid(name: str) -> list[dict[str, Any]]:
    """The settings that zscout tune tries for ``module:name``: the list ``name_grid`` of the module."""
    method_factory(name)
    module, _, attribute = name.partition(":")
    if not hasattr(sys.modules[module], f"{attribute}_grid"):
        example = f"{attribute}_grid = [{{'ridge': 0.1}}, {{'ridge': 0.3}}]"
        raise ValueError(f"{module} does not say what to try for {attribute}: add a list of settings to it, {example}")
    grid = imported(f"{name}_grid")
    if not isinstance(grid, list) or not grid or not all(isinstance(settings, dict) for settings in grid):
        raise ValueError(f"{name}_grid must be a list of settings, such as [{{'ridge': 0.1}}, {{'ridge': 0.3}}]")
    return grid


def plugin_feature_table(name: str, world: Any) -> torch.Tensor:
    """A table [S d] by ``module:name``, or the result of a function of the world."""
    found = imported(name)
    return as_table(_call(found, f"{name}(world)", world) if callable(found) else found, world.n_states, name)


def plugin_model(name: str, world: Any, features: torch.Tensor) -> BehaviorModel:
    """A model by ``module:name``, or the result of a function of the world and the features."""
    model = imported(name)
    if isinstance(model, type) or not isinstance(model, BehaviorModel):  # a class has a model's members
        if not callable(model):
            raise ValueError(f"{name} must be a model or a function that returns one, got {type(model).__name__}")
        model = _call(model, f"{name}(world, features)", world, features)
    if not isinstance(model, BehaviorModel):
        raise ValueError(f"{name} returned {type(model).__name__}, not a BehaviorModel: zscout.check_model says why")
    return model


def _call(function: Any, words: str, *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except (Exception, SystemExit) as error:
        raise ValueError(f"{words} raised {type(error).__name__}: {error}") from error


def plugin_features(model: BehaviorModel, name: str, states: int) -> torch.Tensor:
    """φ of every state by a user's model; it must act deterministically or have ``policy(z)``."""
    if not isinstance(model.observation_space, Discrete):
        raise ValueError(
            f"{name} takes observations {model.observation_space}, expected Discrete({states}): compare, tune and "
            "transfer run in finite grid worlds, whose observations are state numbers; run a model of vectors with "
            "zscout.OnlineTransfer and zscout.rollout, and check it with zscout.check_model(model, env=…)"
        )
    every, z = torch.arange(states), model.sample_z(1, 0)
    try:
        phi = model.phi(every)
        acts = [
            torch.as_tensor(model.act(every, z.expand(states, -1), torch.Generator().manual_seed(seed)))
            for seed in (0, 1)
        ]
    except (Exception, SystemExit) as error:
        raise ValueError(f"{name} cannot answer for all {states} states: {type(error).__name__}: {error}") from error
    if not isinstance(model, Tabulated) and not torch.equal(*acts):
        raise ValueError(f"{name} draws its actions: exact regret needs its policy(z), the probabilities [n S A]")
    return phi
