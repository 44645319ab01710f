"""`qianxun serve --workers N`: one process writes to the data folder, N others search in the same files.

`supervise.serve_with_workers` binds the address, starts the processes and starts them again when they die. The kernel
spreads connections over the N; a search is answered where it arrives, everything else is handed to the writer over a
socket of this user alone (`forward`). `process` is what each of them runs.
"""
