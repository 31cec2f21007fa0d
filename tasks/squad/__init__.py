"""Where in a paragraph the answer to a question stands."""
