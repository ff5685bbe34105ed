"""Someone's own method or model, by ``module:name``: imported from where Python looks, and from the present folder."""

import hashlib
import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from zscout.transfer.method import Method
from zscout.transfer.methods import Factory, factory_named
from zscout.types import BehaviorModel


def is_own(name: str) -> bool:
    """Whether a name is ``module:name``."""
    module, _, attribute = name.partition(":")
    return bool(module and attribute) and all(part.isidentifier() for part in (*module.split("."), attribute))


def imported(name: str) -> Any:
    """What stands under ``module:name``."""
    module, _, attribute = name.partition(":")
    here = str(Path.cwd())
    sys.path.insert(0, here)  # a program of one's own is where one works, whatever zscout was started by
    try:
        return getattr(importlib.import_module(module), attribute)
    except AttributeError as error:
        raise ValueError(f"{name}: the module {module} has no {attribute}") from error
    except Exception as error:  # whatever happens in a stranger's module is a reason why it cannot be used
        raise ValueError(f"{name} cannot be imported: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(here)


def source_digest(name: str) -> str:
    """Of the file that ``module:name`` comes from: another text, other runs."""
    imported(name)
    file = inspect.getsourcefile(sys.modules[name.partition(":")[0]])
    return hashlib.sha256(Path(file).read_bytes() if file else name.encode()).hexdigest()


def method_factory(name: str) -> Factory:
    """One of METHODS; or under ``module:name`` a Method, or a function that returns one for its settings.

    Such a function may also take ``noise``, ``norm_bound`` and ``task`` by name, as those of METHODS do.
    """
    if not is_own(name):
        return factory_named(name)
    found = imported(name)
    if isinstance(found, Method):
        return Factory(lambda: found)
    if isinstance(found, Factory):
        return found
    if callable(found):
        return Factory(_returning(found, name))
    raise ValueError(f"{name} must be a Method or a function that returns one, it is {type(found).__name__}")


def own_model(name: str, world: Any, features: torch.Tensor) -> BehaviorModel:
    """Under ``module:name`` a model, or a function of the world and the features that returns one."""
    found = imported(name)
    model = found
    if isinstance(found, type) or not isinstance(found, BehaviorModel):  # a class has a model's members, and is none
        if not callable(found):
            raise ValueError(f"{name} must be a model or a function that returns one, it is {type(found).__name__}")
        try:
            model = found(world, features)
        except Exception as error:
            raise ValueError(f"{name}(world, features) was to return a model: {error}") from error
    if not isinstance(model, BehaviorModel):
        raise ValueError(f"{name} gave {type(model).__name__}, which is no BehaviorModel: zscout.check_model says why")
    return model


def _returning(build: Callable[..., Any], name: str) -> Callable[..., Method]:
    """The same function, its answer looked at; its signature stays that of the original."""

    def checked(**settings: Any) -> Method:
        method = build(**settings)
        if not isinstance(method, Method):
            raise ValueError(f"{name} must return a Method, it returned {type(method).__name__}")
        return method

    checked.__signature__ = inspect.signature(build)  # type: ignore[attr-defined]
    checked.__doc__ = build.__doc__
    return checked
