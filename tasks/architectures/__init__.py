"""The architectures that tasks train. Each module defines the config section `model` of one."""
