"""The source of a Hugging Face repository: the hub at one commit, or the cached copy of an earlier run."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from attrs import frozen

from astuner.contract.errors import DataError

_TIMEOUT_S = 20.0


@frozen(kw_only=True)
class HubCopy:
    """The arguments of `datasets.load_dataset` for a repository."""

    path: str
    """The repository's id, or the directory of a copy."""
    revision: str | None = None
    """The commit on the hub; None for a copy, which has one commit."""
    data_files: Mapping[str, Any] | None = None
    """The files of the configuration, by split, if they must be named."""


def locate(repository: str, config_name: str | None, revision: str | None, key: str) -> HubCopy:
    """Return the commit of a repository on the hub, or its cached copy if the hub is off or unreachable.

    Called before any download, so that all splits have one commit and mistakes are reported at once. Raises `DataError`, under
    `key`, for a repository or a revision that does not exist, and if there is neither hub nor copy.
    """
    from huggingface_hub import HfApi, constants, errors, hf_hub_download

    if constants.HF_HUB_OFFLINE:
        return _copy(repository, config_name, revision, key, "HF_HUB_OFFLINE is set")
    try:
        found = HfApi().dataset_info(repository, revision=revision, timeout=_TIMEOUT_S)
        with contextlib.suppress(errors.EntryNotFoundError):
            # Stores in the cache which commit the revision was; reading by the commit does not.
            hf_hub_download(repository, "README.md", repo_type="dataset", revision=revision, etag_timeout=_TIMEOUT_S)
    except errors.GatedRepoError as error:
        raise DataError(
            f"{key}.dataset_path: '{repository}' is gated: accept its terms on the hub, and log in (hf auth login, or HF_TOKEN)"
        ) from error
    except errors.RevisionNotFoundError as error:
        raise DataError(f"{key}.revision: '{repository}' has no branch, tag or commit '{revision}'") from error
    except errors.RepositoryNotFoundError as error:
        raise DataError(
            f"{key}.dataset_path: there is no data set '{repository}' at {_endpoint()}, and no local path of this name. "
            "Check the spelling; a private one needs a login (hf auth login, or HF_TOKEN)"
        ) from error
    except errors.HFValidationError as error:
        raise DataError(
            f"{key}.dataset_path: '{repository}' is neither a local path nor the name of a repository: {error}"
        ) from error
    except Exception as error:  # noqa: BLE001 - whatever the network and the server may do
        reason = f"the hub at {_endpoint()} cannot be reached ({type(error).__name__})"
        copy = _copy(repository, config_name, revision, key, reason)
        logging.getLogger(__name__).warning("%s: reading the copy of '%s' in %s", reason, repository, copy.path)
        return copy
    return HubCopy(path=repository, revision=found.sha)


def _copy(repository: str, config_name: str | None, revision: str | None, key: str, reason: str) -> HubCopy:
    from huggingface_hub import constants, snapshot_download

    try:
        home = Path(snapshot_download(repository, repo_type="dataset", revision=revision, local_files_only=True))
    except Exception as error:
        at = "" if revision is None else f" at revision '{revision}'"
        command = f"hf download {repository} --repo-type dataset{'' if revision is None else f' --revision {revision}'}"
        raise DataError(
            f"{key}.dataset_path: '{repository}' is not a local path; {reason}, and there is no copy of it{at} in "
            f"{constants.HF_HUB_CACHE}. Check the network and HF_ENDPOINT, or download it where there is a network: {command}"
        ) from error
    # Download only the files of the configuration. `datasets` also fetches those of the first one, unless they are named.
    return HubCopy(path=str(home), data_files=_find_files(home, config_name))


def _find_files(home: Path, config_name: str | None) -> Mapping[str, Any] | None:
    """Return the files by split that the card lists for a configuration; None if it does not."""
    from huggingface_hub import DatasetCard

    card = home / "README.md"
    if config_name is None or not card.is_file():
        return None
    configs = DatasetCard.load(card).data.to_dict().get("configs") or []
    if not configs or configs[0].get("config_name") == config_name:
        return None
    files = next((config.get("data_files") for config in configs if config.get("config_name") == config_name), None)
    if isinstance(files, list) and files and all(isinstance(part, dict) and "split" in part for part in files):
        return {part["split"]: part["path"] for part in files}
    return {"train": files} if files else None


def _endpoint() -> str:
    """Return the address of the hub without user and password."""
    from huggingface_hub import constants

    parts = urlsplit(constants.ENDPOINT)
    return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}"
