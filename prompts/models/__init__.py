from prompts.models.prompt import Prompt, PromptActivation, PromptVersion, label_of

__all__ = ["Prompt", "PromptActivation", "PromptVersion", "label_of"]
