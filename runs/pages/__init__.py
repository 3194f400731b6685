"""What pages are made of: frozen values, without HTML.

`view` is what every page's view goes through; `words` says in plain words what a run's row says in codes; `hostile`
makes any text safe to look at.
"""
