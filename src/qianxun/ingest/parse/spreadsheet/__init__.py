"""Excel workbooks and CSV."""
