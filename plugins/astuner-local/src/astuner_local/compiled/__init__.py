"""Kernels in C for what a decoding step on a CPU spends its time on, compiled where the machine has a compiler."""
