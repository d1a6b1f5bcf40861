"""Answers that are kept while no change affects them."""
