"""Portico: a GraphQL API gateway over MongoDB."""
