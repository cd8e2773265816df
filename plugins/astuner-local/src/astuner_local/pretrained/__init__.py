"""Small pretrained models that come as GGUF files, written as Hugging Face folders: `astuner model fetch`."""
