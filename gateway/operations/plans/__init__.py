"""Compiles operations to plans: what to fetch and how to answer is computed once, and then runs as functions.

plan      the fields of an operation, and the functions that they are compiled to
compiler  makes the plan of an operation
flat      compiles the functions that make answers from documents
executor  runs operations by their plans, or with graphql-core
run       one run of a plan: pending values, errors with their places, propagation of nulls
running   the jobs of a run that are in flight
values    completion of single values
places    places of values in the answer, and errors
describe  a plan as a tree, for people
trace     the commands that one run sends to MongoDB, and their cost
"""
