"""Which run was given which prompt version: an index for figures, written with the run's first frame."""

from django.db import models

from audit.models.append_only import append_only, no_truncate


class RunPrompt(models.Model):
    """`prompt` and `version` such as chat_executor and chat-executor-v2.

    No part of the chain: the run's `prompt_audit`, which is, says the same with digests.
    """

    id = models.BigAutoField(primary_key=True)
    run = models.ForeignKey("runs.DiagnosisRun", on_delete=models.PROTECT, related_name="prompts_given")
    prompt = models.CharField(max_length=40)
    version = models.CharField(max_length=80)

    class Meta:
        db_table = "run_prompt"
        constraints = [
            # A run pins its prompts once, over all its attempts.
            models.UniqueConstraint(fields=["run", "prompt"], name="run_prompt_once"),
        ]
        indexes = [
            # The runs of a version, newest first, and its figures.
            models.Index(fields=["prompt", "version", "-id"], name="idx_run_prompt_version"),
        ]
        triggers = [append_only(), no_truncate()]

    def __str__(self) -> str:
        return f"{self.run_id} {self.version}"
