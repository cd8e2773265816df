from __future__ import annotations

import pytest
import torch

from astuner_local.forward.transformers_forward import TransformersForward, UnsupportedModel


@pytest.mark.parametrize("family", ["gpt_neox", "qwen3"])
def test_logits_equal_those_of_the_module(family, make_model, packed_logits, own_logits, sequences):
    model = make_model(family)
    found = packed_logits(TransformersForward(model), sequences)
    torch.testing.assert_close(found, own_logits(model, sequences), rtol=1e-5, atol=2e-5)


def test_gradients_equal_those_of_the_module(make_model, packed_logits, own_logits, sequences):
    model = make_model("gpt_neox")
    own_logits(model, sequences).square().mean().backward()
    expected = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    packed_logits(TransformersForward(model), sequences).square().mean().backward()
    torch.testing.assert_close([parameter.grad for parameter in model.parameters()], expected, rtol=1e-4, atol=1e-5)


def test_gradients_flow_into_adapters_and_only_there(make_model, make_adapted, packed_logits, sequences):
    model = make_adapted(make_model("qwen2"))
    packed_logits(TransformersForward(model), sequences).square().mean().backward()
    with_gradient = {name for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert with_gradient == {name for name, _ in model.named_parameters() if "lora_" in name}


def test_adapters_are_applied(make_model, make_adapted, packed_logits, own_logits, sequences):
    model = make_adapted(make_model("gpt_neox"))
    found = packed_logits(TransformersForward(model), sequences)
    torch.testing.assert_close(found, own_logits(model, sequences), rtol=1e-5, atol=2e-5)


def test_inference_applies_no_dropout_to_a_module_in_training(make_model, make_adapted, packed_logits, own_logits, sequences):
    model = make_adapted(make_model("gpt_neox"), lora_dropout=0.5)
    expected = own_logits(model.eval(), sequences)
    found = packed_logits(TransformersForward(model.train(), trainable=False), sequences)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=2e-5)
    assert model.training


def test_the_module_stays_an_ordinary_module(make_model, packed_logits, own_logits, sequences):
    model = make_model("gpt_neox")
    before, implementation = own_logits(model, sequences), model.config._attn_implementation
    packed_logits(TransformersForward(model), sequences)
    assert implementation == model.config._attn_implementation
    assert torch.equal(before, own_logits(model, sequences))


def test_an_error_in_attend_leaves_the_module_ordinary(make_model):
    model = make_model("gpt_neox")
    forward, implementation, ids = TransformersForward(model), model.config._attn_implementation, torch.arange(3)

    def attend(*_):
        raise KeyError("boom")

    with pytest.raises(KeyError, match="boom"):
        forward.hidden(ids, ids, attend)
    assert implementation == model.config._attn_implementation


def test_gradient_checkpointing_of_the_module_is_refused(make_model, packed_logits, sequences):
    model = make_model("gpt_neox")
    forward = TransformersForward(model)
    model.gradient_checkpointing_enable()
    model.train()
    with pytest.raises(UnsupportedModel, match="gradient_checkpointing_disable"):
        packed_logits(forward, sequences)


def test_a_sliding_window_is_refused_by_name(make_model):
    with pytest.raises(UnsupportedModel, match=r"MistralAttention.*sliding_window"):
        TransformersForward(make_model("mistral", sliding_window=8))
