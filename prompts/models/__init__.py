from prompts.models.prompt import Prompt, PromptActivation, PromptVersion

__all__ = ["Prompt", "PromptActivation", "PromptVersion"]
