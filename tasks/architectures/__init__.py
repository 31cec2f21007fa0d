"""The architectures that tasks train.

Each module defines the schema of the config section `model` for one architecture.
"""
