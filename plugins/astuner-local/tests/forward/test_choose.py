from __future__ import annotations

import pytest
import torch
from torch import nn
from transformers import MambaConfig, MambaForCausalLM

from astuner_local.forward.choose import make_forward
from astuner_local.forward.fused import FusedForward
from astuner_local.forward.transformers_forward import TransformersForward, UnsupportedModel


@pytest.mark.parametrize("trainable", [True, False], ids=["trainable", "inference"])
@pytest.mark.parametrize("family", ["qwen2", "qwen3", "llama"])
def test_a_known_family_is_fused(family, trainable, make_model):
    assert isinstance(make_forward(make_model(family), trainable=trainable), FusedForward)


def test_any_other_family_goes_through_transformers(make_model):
    assert isinstance(make_forward(make_model("gpt_neox"), trainable=False), TransformersForward)


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_a_known_family_that_was_altered_is_not_fused(dtype, make_model):
    model = make_model("qwen2")
    model.model.layers[1].mlp.act_fn = nn.GELU()
    assert isinstance(make_forward(model, trainable=False, dtype=dtype), TransformersForward)


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_rotary_frequencies_that_the_module_does_not_use_are_noticed(dtype, make_model):
    model = make_model("llama")
    usual = model.model.rotary_emb.forward
    model.model.rotary_emb.forward = lambda x, position_ids: usual(x, position_ids * 1.02)
    assert isinstance(make_forward(model, trainable=False, dtype=dtype), TransformersForward)


def test_adapters_are_trained_without_their_modules(make_model, make_adapted):
    assert isinstance(make_forward(make_adapted(make_model("qwen2")), trainable=True), FusedForward)


def test_adapters_that_compute_more_than_two_products_are_trained_through_their_modules(make_model, make_adapted):
    from peft import LoraConfig, get_peft_model

    settings = LoraConfig(r=2, target_modules=["q_proj"], lora_bias=True)
    biased = get_peft_model(make_model("qwen2"), settings)
    assert isinstance(make_forward(biased, trainable=True), TransformersForward)
    merged = make_adapted(make_model("qwen2"))
    merged.merge_adapter()
    assert isinstance(make_forward(merged, trainable=True), TransformersForward)


def test_adapters_are_merged_for_inference(make_model, make_adapted, packed_logits, own_logits, sequences):
    model = make_adapted(make_model("qwen3"))
    forward = make_forward(model, trainable=False)
    assert isinstance(forward, FusedForward)
    torch.testing.assert_close(packed_logits(forward, sequences), own_logits(model, sequences), rtol=1e-4, atol=1e-4)


def test_refresh_merges_the_adapters_as_they_are_now(make_model, make_adapted, packed_logits, own_logits, sequences):
    model = make_adapted(make_model("qwen2"))
    forward = make_forward(model, trainable=False)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.neg_()
    forward.refresh()
    torch.testing.assert_close(packed_logits(forward, sequences), own_logits(model, sequences), rtol=1e-4, atol=1e-4)


def test_merging_leaves_the_adapted_module_alone(make_model, make_adapted, own_logits, sequences):
    model = make_adapted(make_model("qwen2"))
    before = own_logits(model, sequences)
    make_forward(model, trainable=False).refresh()
    assert torch.equal(before, own_logits(model, sequences))


def test_variants_of_lora_go_through_transformers(make_model, make_adapted):
    assert isinstance(make_forward(make_adapted(make_model("qwen2"), use_dora=True), trainable=False), TransformersForward)


def test_a_state_space_model_is_refused():
    model = MambaForCausalLM(MambaConfig(vocab_size=61, hidden_size=16, num_hidden_layers=1, state_size=4))
    with pytest.raises(UnsupportedModel, match="0 of 1 layers attend"):
        make_forward(model, trainable=False)


def test_a_result_that_differs_is_refused_with_the_way_out(make_model):
    model = make_model("gpt_neox")
    usual = model.forward
    model.forward = lambda **inputs: _scaled(usual(**inputs))
    with pytest.raises(UnsupportedModel, match=r"rollout\.name: vllm"):
        make_forward(model, trainable=False)


def test_choosing_leaves_the_training_mode_alone(make_model):
    model = make_model("qwen2").train()
    make_forward(model, trainable=True)
    assert model.training


def _scaled(output):
    output.logits = output.logits / 3
    return output
