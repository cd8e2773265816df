from __future__ import annotations

import pytest
import torch

from astuner_local.forward.fused import FusedForward

LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
SHAPES = [
    ("qwen2", {"tie_word_embeddings": True}),
    ("qwen2", {"num_key_value_heads": 4, "tie_word_embeddings": False}),
    ("qwen3", {"head_dim": 12}),
    ("qwen3", {"attention_bias": True, "num_key_value_heads": 1}),
    ("llama", {"attention_bias": True, "mlp_bias": True}),
    ("llama", {"rope_parameters": LLAMA3_ROPE}),
    ("llama", {"rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}}),
    (
        "llama",
        {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 16}},
    ),
    ("mistral", {"sliding_window": None}),
]


@pytest.mark.parametrize("trainable", [True, False], ids=["trainable", "inference"])
@pytest.mark.parametrize(("family", "settings"), SHAPES)
def test_logits_equal_those_of_the_module(family, settings, trainable, make_model, packed_logits, own_logits, sequences):
    model = make_model(family, **settings)
    found = packed_logits(FusedForward(model, trainable=trainable), sequences)
    torch.testing.assert_close(found, own_logits(model, sequences), rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize(("family", "settings"), SHAPES[:5])
def test_gradients_equal_those_of_the_module(family, settings, make_model, packed_logits, own_logits, sequences):
    model = make_model(family, **settings)
    weights = torch.randn(sum(map(len, sequences)), model.config.vocab_size, generator=torch.Generator().manual_seed(0))
    (own_logits(model, sequences) * weights).sum().backward()
    expected = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    model.zero_grad()
    (packed_logits(FusedForward(model, trainable=True), sequences) * weights).sum().backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(
            parameter.grad, expected[name], rtol=1e-4, atol=1e-4, msg=lambda text, name=name: f"{name}: {text}"
        )


def test_inference_keeps_the_old_weights_until_it_is_refreshed(make_model, packed_logits, own_logits, sequences):
    model = make_model("qwen3")
    forward = FusedForward(model, trainable=False)
    before = packed_logits(forward, sequences)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.1)
    assert torch.equal(before, packed_logits(forward, sequences))


def test_refresh_takes_over_every_weight(make_model, packed_logits, own_logits, sequences):
    model = make_model("qwen2", tie_word_embeddings=False)
    forward = FusedForward(model, trainable=False)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.1)
    forward.refresh()
    torch.testing.assert_close(packed_logits(forward, sequences), own_logits(model, sequences), rtol=1e-5, atol=5e-5)


def test_refresh_allocates_no_second_copy(make_model):
    forward = FusedForward(make_model("qwen2"), trainable=False)
    before = [weight.data_ptr() for weight, _ in forward._list_products()]
    forward.refresh()
    assert before == [weight.data_ptr() for weight, _ in forward._list_products()]


def test_inference_records_no_graph(make_model, packed_logits, sequences):
    assert not packed_logits(FusedForward(make_model("qwen2"), trainable=False), sequences).requires_grad


@pytest.mark.parametrize("trainable", [True, False], ids=["trainable", "inference"])
def test_bfloat16_stays_near_the_float32_module(trainable, make_model, packed_logits, own_logits, sequences):
    model = make_model("qwen3")
    found = packed_logits(FusedForward(model, torch.bfloat16, trainable=trainable), sequences).log_softmax(-1)
    expected = own_logits(model, sequences).log_softmax(-1)
    assert found.dtype == torch.float32
    assert (found - expected).abs().max() < 0.03 * expected.abs().max()


def test_bfloat16_gives_float32_parameters_their_gradient(make_model, packed_logits, sequences):
    model = make_model("qwen2")
    packed_logits(FusedForward(model, torch.bfloat16, trainable=True), sequences).square().mean().backward()
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in model.parameters())
