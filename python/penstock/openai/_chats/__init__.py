"""Chats, and the APIs that ask for them: OpenAI's chat completions and responses, Anthropic's messages."""
