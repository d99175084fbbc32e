"""The grammar, the lexicon and the assembly of the demo corpus (see ``data/README.md``)."""
