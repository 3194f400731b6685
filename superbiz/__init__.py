"""The composition root: settings, URLs, processes, embedded servers. Nothing of ours imports it."""
