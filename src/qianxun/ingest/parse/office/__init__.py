"""Word and PowerPoint; `package` checks the archive of any Office file first."""
