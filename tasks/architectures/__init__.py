"""The architectures that tasks can train.

For one architecture each, the modules define the keys of the config section `model`, and build the
model.
"""
