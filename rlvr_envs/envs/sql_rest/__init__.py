"""Databases and services: transactions on real PostgreSQL, judged by rows."""
