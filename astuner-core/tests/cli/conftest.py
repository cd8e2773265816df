from command_process import astuner

__all__ = ["astuner"]
