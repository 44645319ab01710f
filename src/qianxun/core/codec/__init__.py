"""One codec for wire, log, checkpoints and the command line: `plain` writes and reads, `wire` has HTTP's shapes,
`passage` what readers outside see of a chunk; `labels` what keys are called on screen; `digests` compares values, `sse`
writes and reads event streams, `log_export` writes logged searches to files, `command_line` a search as a command."""
