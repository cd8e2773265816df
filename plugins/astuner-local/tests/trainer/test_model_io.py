from __future__ import annotations

import pytest
import torch
from peft import LoraConfig, get_peft_model
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import AutoModelForCausalLM, AutoTokenizer, BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

from astuner.contract.errors import ConfigError, RunFailed, UsageError
from astuner.runs.training import export as training_export
from astuner_local.trainer.export import export
from astuner_local.trainer.model_io import compute_dtype, load_model, save_hf
from astuner_local.trainer.options import TrainerOptions
from astuner_local.trainer.trainer import Trainer

PROMPT = torch.tensor([[5, 6, 7]])


@pytest.fixture
def tokenizer():
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel({"a": 0, "b": 1}, unk_token="a")), unk_token="a")


@pytest.fixture
def base(make_model, tmp_path):
    make_model().save_pretrained(tmp_path / "base")
    return tmp_path / "base"


def _generated(model):
    ids = model.generate(PROMPT, attention_mask=torch.ones_like(PROMPT), max_new_tokens=12, do_sample=False, pad_token_id=0)
    return ids.tolist()


def _train(model, make_groups):
    Trainer(model, TrainerOptions(lr=2e-2)).update(make_groups(), 1)
    return model


@pytest.fixture
def checkpoint(base, tokenizer, make_groups, tmp_path):
    """Makes a checkpoint of a trained model, with a trainer's state in it, and returns it with the model."""

    def make(lora_rank):
        model = load_model(base, lora_rank=lora_rank)
        trainer = Trainer(model, TrainerOptions(lr=2e-2))
        trainer.update(make_groups(), 1)
        save_hf(model, tokenizer, tmp_path / "checkpoint")
        trainer.save(tmp_path / "checkpoint")
        return tmp_path / "checkpoint", model

    return make


def test_masters_are_float32_whatever_the_checkpoint_was_saved_in(make_model, tmp_path):
    make_model().bfloat16().save_pretrained(tmp_path)
    assert {p.dtype for p in load_model(tmp_path).parameters()} == {torch.float32}


def test_adapters_are_float32_on_a_frozen_base_in_its_own_precision(make_model, tmp_path):
    make_model().bfloat16().save_pretrained(tmp_path)
    model = load_model(tmp_path, lora_rank=2)
    trained = {p.dtype for p in model.parameters() if p.requires_grad}
    frozen = {p.dtype for p in model.parameters() if not p.requires_grad}
    assert (trained, frozen) == ({torch.float32}, {torch.bfloat16})


def test_adapters_go_where_they_are_asked_for(base):
    model = load_model(base, lora_rank=2, target_modules=["q_proj"])
    assert all("q_proj" in name for name, p in model.named_parameters() if p.requires_grad)


def test_adapters_on_modules_that_are_not_there_are_refused(base):
    with pytest.raises(ConfigError, match=r"astuner\.model\.target_modules: \['nowhere'\]"):
        load_model(base, lora_rank=2, target_modules=["nowhere"])


def test_a_path_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"astuner\.model\.path: .*gone does not exist"):
        load_model(tmp_path / "gone")


def test_a_directory_without_a_model_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"has no config\.json"):
        load_model(tmp_path)


def test_a_model_without_weights_is_named(base):
    (base / "model.safetensors").unlink()
    with pytest.raises(ConfigError, match=r"astuner\.model\.path: .*base cannot be loaded: .*model\.safetensors"):
        load_model(base)


def test_an_adapter_whose_base_is_gone_is_named(base, tmp_path):
    save_hf(load_model(base, lora_rank=2), None, tmp_path / "saved")
    base.rename(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match=r"base does not exist"):
        load_model(tmp_path / "saved")


def test_precision_auto_is_that_of_the_checkpoint(make_model, tmp_path):
    make_model().bfloat16().save_pretrained(tmp_path)
    assert (compute_dtype(tmp_path, "auto"), compute_dtype(tmp_path, "float32")) == ("bfloat16", "float32")


def test_no_path_is_named():
    with pytest.raises(ConfigError, match="no model is given"):
        load_model("")


def test_a_model_of_another_kind_is_refused(tmp_path):
    config = BertConfig(vocab_size=20, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)
    BertForMaskedLM(config).save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match="is a BertForMaskedLM, not a causal language model"):
        load_model(tmp_path)


def test_saved_weights_come_back_bit_for_bit(base, make_groups, tmp_path):
    model = _train(load_model(base), make_groups)
    save_hf(model, None, tmp_path / "saved")
    again = load_model(tmp_path / "saved").state_dict()
    assert [name for name, value in model.state_dict().items() if not torch.equal(value, again[name])] == []


def test_an_adapter_is_saved_with_the_whole_path_of_its_base(base, tmp_path, monkeypatch):
    monkeypatch.chdir(base.parent)
    save_hf(load_model("base", lora_rank=2), None, tmp_path / "saved")
    monkeypatch.chdir("/")
    assert load_model(tmp_path / "saved").peft_config["default"].base_model_name_or_path == str(base)


@pytest.mark.parametrize(("lora_rank", "merge"), [(0, False), (4, False), (4, True)], ids=["full", "adapter", "merged"])
def test_an_export_loads_in_transformers_and_generates_the_same(lora_rank, merge, checkpoint, tmp_path):
    directory, model = checkpoint(lora_rank)
    export(directory, tmp_path / "out", merge_lora=merge)
    assert _generated(AutoModelForCausalLM.from_pretrained(tmp_path / "out")) == _generated(model)
    assert AutoTokenizer.from_pretrained(tmp_path / "out").encode("b") == [1]


def test_the_trained_adapter_changes_what_is_generated(checkpoint, base):
    """Without this the comparison of exports would hold for adapters that are lost."""
    _, model = checkpoint(4)
    assert _generated(AutoModelForCausalLM.from_pretrained(base)) != _generated(model)


def test_an_export_holds_no_trainer_state(checkpoint, tmp_path):
    directory, _ = checkpoint(4)
    export(directory, tmp_path / "out", merge_lora=True)
    names = {file.name for file in (tmp_path / "out").iterdir()}
    assert not {name for name in names if name.startswith(("trainer", "adapter"))}
    assert "model.safetensors" in names


def test_an_export_has_the_precision_that_is_asked_for(checkpoint, tmp_path):
    directory, _ = checkpoint(0)
    export(directory, tmp_path / "out", dtype="bfloat16")
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "out").dtype == torch.bfloat16


def _adapted(base, directory, targets):
    """A saved adapter whose weights are all random, and the logits that it gives."""
    torch.manual_seed(0)
    model = load_model(base, lora_rank=4, target_modules=targets)
    for parameter in (p for p in model.parameters() if p.requires_grad):
        torch.nn.init.normal_(parameter, std=0.1)
    save_hf(model, None, directory)
    with torch.no_grad():
        return model.eval()(PROMPT).logits


@pytest.mark.parametrize("targets", ["all-linear", ["q_proj", "lm_head"], ["embed_tokens", "q_proj"]], ids=str)
def test_a_merged_model_computes_what_the_adapters_do_on_tied_embeddings_too(targets, base, tmp_path):
    wanted = _adapted(base, tmp_path / "adapter", targets)
    export(tmp_path / "adapter", tmp_path / "out", merge_lora=True)
    torch.testing.assert_close(AutoModelForCausalLM.from_pretrained(tmp_path / "out")(PROMPT).logits, wanted)


@pytest.mark.parametrize("saved", [["lm_head"], ["embed_tokens"], ["embed_tokens", "lm_head"]], ids=str)
def test_layers_that_peft_keeps_whole_are_merged_on_tied_embeddings_too(saved, base, tmp_path):
    torch.manual_seed(0)
    options = LoraConfig(r=4, target_modules=["q_proj"], modules_to_save=saved, task_type="CAUSAL_LM")
    adapted = get_peft_model(AutoModelForCausalLM.from_pretrained(base), options)
    for parameter in (p for p in adapted.parameters() if p.requires_grad):
        torch.nn.init.normal_(parameter, std=0.1)
    adapted.save_pretrained(tmp_path / "adapter")
    with torch.no_grad():
        wanted = adapted.eval()(PROMPT).logits
    export(tmp_path / "adapter", tmp_path / "out", merge_lora=True)
    torch.testing.assert_close(AutoModelForCausalLM.from_pretrained(tmp_path / "out")(PROMPT).logits, wanted)


def test_a_merged_model_that_computes_something_else_is_not_exported(base, tmp_path, monkeypatch):
    _adapted(base, tmp_path / "adapter", ["q_proj", "lm_head"])
    monkeypatch.setattr(training_export, "_untie_adapted_embeddings", lambda model: None)
    with pytest.raises(RunFailed, match="the merged model computes something else than the adapters"):
        export(tmp_path / "adapter", tmp_path / "out", merge_lora=True)
    assert not (tmp_path / "out").exists()


@pytest.fixture
def half(make_model, tmp_path):
    """A model in bfloat16."""
    make_model().bfloat16().save_pretrained(tmp_path / "half")
    return tmp_path / "half"


@pytest.mark.parametrize(("dtype", "expected"), [(None, torch.bfloat16), ("float32", torch.float32)], ids=str)
def test_a_merged_model_has_the_precision_of_its_base_unless_asked_for_another(dtype, expected, half, tmp_path):
    _adapted(half, tmp_path / "adapter", "all-linear")
    export(tmp_path / "adapter", tmp_path / "out", merge_lora=True, dtype=dtype)
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "out").dtype == expected


@pytest.mark.parametrize(("dtype", "expected"), [(None, torch.bfloat16), ("float32", torch.float32)], ids=str)
def test_a_fully_trained_model_is_exported_in_the_precision_that_it_began_with(dtype, expected, half, make_groups, tmp_path):
    model = load_model(half)
    trainer = Trainer(model, TrainerOptions(lr=2e-2, dtype=compute_dtype(half, "auto")))
    trainer.update(make_groups(), 1)
    save_hf(model, None, tmp_path / "checkpoint")
    trainer.save(tmp_path / "checkpoint" / "trainer")
    export(tmp_path / "checkpoint", tmp_path / "out", dtype=dtype)
    assert compute_dtype(tmp_path / "checkpoint", "auto") == "float32"
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "out").dtype == expected


def test_an_export_overwrites_nothing(checkpoint, tmp_path):
    directory, _ = checkpoint(0)
    with pytest.raises(UsageError, match="is not an empty directory"):
        export(directory, directory)


def test_an_export_of_a_directory_without_a_model_is_refused(tmp_path):
    with pytest.raises(UsageError, match="there is no model to export"):
        export(tmp_path, tmp_path / "out")
