"""Wire APIs for astuner: OpenAI's Responses and completions, Anthropic's Messages, Google's Gemini."""
