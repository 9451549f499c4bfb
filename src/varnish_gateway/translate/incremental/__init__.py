"""Incremental computation over a set of objects: a change costs what depends on it.

``ObjectStore`` holds the objects. A pure function reads them through a ``View``, which records every
lookup as a dependency. A ``Memo`` recomputes a value when one of its dependencies changes.
``OwnerIndex``, ``Claims`` and ``Tallies`` answer questions about many objects at once; each answer is
a dependency of its own. Nothing here knows the Gateway API.
"""
