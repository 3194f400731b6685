"""What the pages show, as frozen values made from the record: no HTML, no request.

`runlist` and `runpage` are the two pages; `timeline`, `proof` and `details` their parts; `words` says in plain words
what the record says in codes; `marks` finds an excerpt in its source. What all pages share is in `runs.pages`.
"""
