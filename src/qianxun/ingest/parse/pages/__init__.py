"""Formats made of pages or pixels: PDF and images. `pdf` and `image` are the formats, the rest their parts."""
