"""Finished runs in one file, which everything reads as if they still lay in folders of their own.

    outputs/archives/<name>-0001.zip    runs/<id>/... as they lay, and a manifest with digests

`unzip outputs/archives/<name>-0001.zip -d outputs` puts them back.

    making.py     puts them there, and takes the folders away
    archive.py    the file: written whole, and nothing of it believed without its digest
    reading.py    where all reading of runs goes through: the folder, or the archive
"""
