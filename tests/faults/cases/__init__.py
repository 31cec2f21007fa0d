"""The cases, by what is broken: processes, files, jobs, whole commands."""
