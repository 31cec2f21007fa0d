"""The architectures that tasks can train.

Each module is for one architecture. It defines the keys of the config section `model`, and builds
the model from them.
"""
