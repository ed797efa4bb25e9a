"""What runs inside a verifier's sandbox, on the image's own Python.

These files are packed into one archive that the image's interpreter runs; they
import the standard library, pytest and each other, and nothing else of ours.
"""
