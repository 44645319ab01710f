"""Worker processes for untrusted files: `pool` starts and replaces them, `worker` is their program, `serial` what they
send, `limits` what one file may cost."""
