"""Operations as compiled plans: what is to be fetched and answered, worked out once, then run as functions.

plan      what an operation does, field by field, and the functions it is compiled to
flat      the functions that make answers of documents
under_way what a run waits for
run       one run of a plan: what is under way, errors with their places, nulls that spread
describe  a plan as a tree, for people
trace     what one run has sent to MongoDB, and what that cost
"""
