"""Text in, batches out: corpus files, the line rule, filters, tokenizer, token store, batches.

`lines` says what a line is, `corpus` where the files are, `tokenizer` turns text into pieces and
back, `store` keeps the pieces on disk, `batches` cuts them into token budgets, and `preparation`
runs the whole way once and remembers the result. Nothing in here knows a model.
"""
