"""What runs in the processes that open a database; needs the interpreter alone."""
