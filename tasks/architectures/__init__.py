"""The architectures that tasks train. Each module here defines the section `model` for one."""
