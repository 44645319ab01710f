"""Files of examples: `excel` and `contents` (JSON) read them, `cleaning` cleans rows, `template` writes a form."""
