"""What the pages show, as frozen values made from the record: no HTML, no request.

`runlist` and `runpage` are the two pages; `timeline`, `proof` and `details` their parts; `words` says in plain words
what the record says in codes; `hostile` makes any text safe to look at; `marks` finds an excerpt in its source.
"""
