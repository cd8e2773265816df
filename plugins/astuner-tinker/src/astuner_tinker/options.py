"""The section `tinker` of the YAML: which server trains, what is trained there, and what it may cost."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal

from attrs import field, frozen
from attrs.validators import ge, gt, optional

from astuner.settings.config.alignment import Alignment, Row
from astuner.settings.config.structure_errors import Fault, FaultsError
from astuner.settings.config.structuring import make_converter


@frozen(kw_only=True)
class Prices:
    """US dollars per million tokens."""

    prefill: float = field(default=0.0, validator=ge(0))
    """Of a prompt, and of an answer that is only scored."""
    sample: float = field(default=0.0, validator=ge(0))
    train: float = field(default=0.0, validator=ge(0))
    """Of a row that is trained: prompt and answer."""


@frozen(kw_only=True)
class Options:
    """What the backbone reads."""

    base_url: str | None = None
    """Of a server that speaks the Tinker API, as `http://127.0.0.1:8000`; null for `TINKER_BASE_URL`, or the hosted service."""
    base_model: str | None = None
    """The server's name for the model of `model.path`, whose tokenizer and template are read here; null if it is the same."""
    project_id: str | None = None
    """Of the hosted service."""
    rank: int = field(default=32, validator=ge(1))
    """Of the LoRA adapters; `model.lora_rank` decides it, if set."""
    train_attn: bool = True
    train_mlp: bool = True
    train_unembed: bool = False
    """Whether the output layer has adapters too, which `all-linear` elsewhere does not include."""
    loss: Literal["auto", "importance_sampling", "computed"] = "auto"
    """Where the loss is computed. `importance_sampling`: on the server, without clipping. `computed`: here, from one more forward
    pass, of which only the gradient is sent: every loss, correction, divergence and stream of astuner. `auto`: the server's own
    clipped loss where it is the same, `computed` elsewhere."""
    reduction: Literal["sum", "tokens", "rows"] | None = None
    """What the server makes of the losses of a call, if it cannot be measured: their sum, or their mean over tokens or rows."""
    max_in_flight: int = field(default=64, validator=ge(1))
    """Requests for tokens that are under way at the same time."""
    max_spend: float | None = field(default=None, validator=optional(gt(0)))
    """US dollars of the whole run, earlier attempts included: then it saves and ends. By `prices`; the bill may differ."""
    prices: Prices | None = None
    """null for those that the package knows of the hosted service."""
    download: bool = False
    """Whether a checkpoint holds the adapters too, in PEFT's form; without it `astuner export` downloads them."""
    telemetry: bool = False
    """Whether the SDK reports its use and its errors to the server."""
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1


def read_options(native: Mapping[str, Any]) -> Options:
    """Return the options of a checked section."""
    return make_converter().structure(dict(native), Options)


def find_url(options: Options) -> str | None:
    """Return the address of the server; None for the hosted service."""
    return options.base_url or os.environ.get("TINKER_BASE_URL") or None


def _check(native: Mapping[str, Any]) -> tuple[Fault, ...]:
    try:
        options = make_converter().structure(dict(native), Options)
    except FaultsError as error:
        return tuple(error.faults)
    if not (options.train_attn or options.train_mlp or options.train_unembed):
        return (
            Fault(
                message="nothing would be trained: leave one of train_attn, train_mlp, train_unembed true", path=("train_attn",)
            ),
        )
    return ()


def _list_defaults() -> Mapping[str, Any]:
    defaults: Mapping[str, Any] = make_converter().unstructure(Options())
    return defaults


def _check_rank(rank: int) -> int:
    if rank < 1:
        raise ValueError("0 trains all weights, and the Tinker API trains LoRA adapters only. Set a rank, such as 32")
    return rank


def _check_whole(name: str, whole: float) -> Any:
    def check(value: float) -> float:
        if value != whole and not (name == "top_k" and value <= 0):
            raise ValueError(
                f"a Tinker server trains the distribution of temperature 1 over all tokens, so episodes are sampled from it: "
                f"remove the key, or set {whole:g}. Validation may use others (rollout.val_kwargs)"
            )
        return whole

    return check


ALPHA = "the server decides it: 32 by the hosted service and SkyRL, twice the rank by hatchery"
SAMPLED = "the server trains the distribution of temperature 1 over all tokens"

ALIGNMENT = Alignment(
    root="tinker",
    rows=(
        Row("model.lora_rank", "rank", value=_check_rank, only_if_set=True),
        Row("rollout.temperature", "temperature", value=_check_whole("temperature", 1.0), only_if_set=True),
        Row("rollout.top_p", "top_p", value=_check_whole("top_p", 1.0), only_if_set=True),
        Row("rollout.top_k", "top_k", value=_check_whole("top_k", -1), only_if_set=True),
    ),
    defaults=_list_defaults,
    frozen=dict.fromkeys(("temperature", "top_p", "top_k"), SAMPLED),
    check=_check,
)
