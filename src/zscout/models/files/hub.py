"""Models of the Hugging Face Hub by ``hf://owner/name[@revision]``: fetched once, then read from the local cache.

Only safetensors, JSON and README.md are fetched: pickles never reach the disk.
"""

import re
from functools import cache
from pathlib import Path
from typing import Any

from zscout.base.hints import MissingExtraError

PREFIX = "hf://"
FETCHED = [
    "README.md",
    "config.json",
    "training.json",
    "model.safetensors",
    "observations.safetensors",
    "atlas.safetensors",
]
MOST_BYTES = 8_000_000_000  # of a model: two billion numbers in 32 bits
NAME = re.compile(r"hf://(?P<repository>[\w.-]+/[\w.-]+)(@(?P<revision>[\w.-]+(/[\w.-]+)*))?")


@cache
def fetched(name: str) -> Path:
    """The local folder of a model of the Hub; the revision is a branch, a tag or a commit, by default ``main``.

    A name is resolved once: in one process it stays the same commit. Sizes are checked before anything is fetched.
    Without network, or with HF_HUB_OFFLINE=1, it is what was fetched before.
    """
    found = NAME.fullmatch(name)
    if found is None or ".." in name:
        raise ValueError(f"{name!r} is not a name on the Hub: expected hf://owner/name, or hf://owner/name@revision")
    try:
        from huggingface_hub import HfApi, errors, snapshot_download
    except ModuleNotFoundError as error:
        raise MissingExtraError("hf:// models need huggingface_hub", "hub") from error
    repository, revision = found["repository"], found["revision"]
    try:
        commit = _checked_commit(HfApi(library_name="zscout"), repository, revision)
        folder: str = snapshot_download(repository, revision=revision, allow_patterns=FETCHED, library_name="zscout")
    except errors.RevisionNotFoundError:
        raise ValueError(f"{PREFIX}{repository} has no revision {revision or 'main'!r}") from None
    except errors.GatedRepoError:
        raise ValueError(f"{name} is gated: accept its terms on its page, then run `hf auth login`") from None
    except errors.RepositoryNotFoundError:
        raise ValueError(
            f"there is no {PREFIX}{repository} on the Hub, or it is private: check the name, or run `hf auth login`"
        ) from None
    except errors.HFValidationError as error:
        raise ValueError(f"{name!r} is not a name on the Hub: {_first_line(error)}") from None
    except errors.LocalEntryNotFoundError as error:
        why = "HF_HUB_OFFLINE is set" if "HF_HUB_OFFLINE" in str(error) else "the Hub cannot be reached"
        raise ValueError(f"{name} is not in the local cache, and {why}: load it once with a network") from None
    except ValueError:
        raise
    except Exception as error:  # of the transport: its classes differ between versions of huggingface_hub
        raise ValueError(f"{name} cannot be fetched: {_first_line(error)}") from error
    if commit not in (None, Path(folder).name):
        raise ValueError(f"{name} changed while it was fetched: load it again")
    return Path(folder)


def _checked_commit(hub: Any, repository: str, revision: str | None) -> str | None:
    """The commit of a revision; raises if its files are too large. None without network."""
    from huggingface_hub import errors

    try:
        found = hub.model_info(repository, revision=revision or "main", files_metadata=True)
    except (errors.HfHubHTTPError, errors.HFValidationError):
        raise
    except Exception:  # of the transport: what was fetched before is read
        return None
    size = sum(file.size or 0 for file in found.siblings if file.rfilename in FETCHED)
    if size > MOST_BYTES:
        raise ValueError(f"{PREFIX}{repository} has {size:,} bytes, expected at most {MOST_BYTES:,}")
    return str(found.sha)


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
