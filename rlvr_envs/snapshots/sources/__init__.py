"""Where the files of an image come from, one module a kind of source."""
