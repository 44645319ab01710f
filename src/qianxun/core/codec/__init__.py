"""One codec for wire, log, checkpoints and the command line: `plain` writes and reads, `wire` has HTTP's shapes,
`passage` what readers outside see of a chunk; `labels` what keys are called on screen."""
