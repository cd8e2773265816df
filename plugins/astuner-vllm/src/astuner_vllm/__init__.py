"""The engine `vllm`: rollouts from vLLM servers that are started, fed with new weights, and survived."""
