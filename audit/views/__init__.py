"""The pages of runs: a module a page. `page` holds what they share."""
