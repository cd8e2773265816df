"""The engine `vllm`: rollouts from vLLM servers that are started, updated with new weights, and replaced when they die."""
