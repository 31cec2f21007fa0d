"""The words a config is written in: sections, kinds of values, and what is said of wrong ones."""
