"""Models of the Hugging Face Hub by ``hf://owner/name[@revision]``: fetched once, then read from the local cache.

Only safetensors, JSON and README.md are fetched: pickles never reach the disk.
"""

import re
from pathlib import Path

from zscout.base.extras import MissingExtraError

PREFIX = "hf://"
OF_A_MODEL = ["config.json", "init_kwargs.json", "model.safetensors"]
FETCHED = [
    "README.md",
    "training.json",
    "observations.safetensors",
    *OF_A_MODEL,
    *(f"model/{one}" for one in OF_A_MODEL),
]
NAME = re.compile(r"hf://(?P<repository>[\w.-]+/[\w.-]+)(@(?P<revision>[\w.-]+(/[\w.-]+)*))?")


def fetched(name: str) -> Path:
    """The local folder of a model of the Hub; the revision is a branch, a tag or a commit, by default ``main``.

    Without network, or with HF_HUB_OFFLINE=1, it is what was fetched before.
    """
    found = NAME.fullmatch(name)
    if found is None or ".." in name:
        raise ValueError(f"{name!r} is not a name on the Hub: expected hf://owner/name, or hf://owner/name@revision")
    try:
        from huggingface_hub import errors, snapshot_download
    except ModuleNotFoundError as error:
        raise MissingExtraError("hf:// models need huggingface_hub", "hub") from error
    repository, revision = found["repository"], found["revision"]
    try:
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
    except Exception as error:  # of the transport: its classes differ between versions of huggingface_hub
        raise ValueError(f"{name} cannot be fetched: {_first_line(error)}") from error
    return Path(folder)


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
