"""Uploading an export to the hub, with the login that the user has there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from astuner.contract.errors import AstunerError, RunFailed, UsageError

LOGIN = "log in with `hf auth login`, or set HF_TOKEN to a token that may write"


def check_login(name: str, *, public: bool) -> None:
    """Raise `UsageError` without a login, or the repository is public and `public` is not asked for."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, LocalTokenNotFoundError, RepositoryNotFoundError

    api = HfApi()
    with _explain_failures(name):
        try:
            api.whoami()
        except LocalTokenNotFoundError as error:
            raise UsageError(f"--push {name}: there is no login for the hub; {LOGIN}") from error
        except HfHubHTTPError as error:
            if error.response.status_code != 401:
                raise
            raise UsageError(f"--push {name}: the hub does not accept your token; {LOGIN}") from error
        try:
            found = api.repo_info(name)
        except RepositoryNotFoundError:
            return
    if not found.private and not public:
        raise UsageError(
            f"--push {name}: exists and is public; add --public if everybody may see this model, or name another one"
        )


def push(folder: Path, name: str, *, public: bool) -> str:
    """Upload the files of a directory in one commit; return the address. The repository is made if it does not exist."""
    from huggingface_hub import HfApi

    api = HfApi()
    with _explain_failures(name, f". The export is in {folder}: `hf upload {name} {folder}` uploads it again"):
        api.create_repo(name, private=not public, exist_ok=True)
        api.upload_folder(repo_id=name, folder_path=folder, commit_message="Upload a model tuned with astuner")
    return f"{api.endpoint}/{name}"


@contextmanager
def _explain_failures(name: str, more: str = "") -> Iterator[None]:
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    try:
        yield
    except OfflineModeIsEnabled as error:
        raise UsageError(f"--push {name}: HF_HUB_OFFLINE is set, so nothing is uploaded; unset it{more}") from error
    except HfHubHTTPError as error:
        text = error.server_message or f"HTTP {error.response.status_code}"
        raise RunFailed(f"--push {name}: the hub refused it: {text}{more}") from error
    except AstunerError:
        raise
    except Exception as error:  # of connections: which class it is depends on the release of the library
        raise RunFailed(f"--push {name}: the hub cannot be reached: {error}{more}") from error
