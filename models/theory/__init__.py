"""The paper's Theorem 1 as code; what Theorem 2 says is tested (tests/models/separation.py).

Everything is in double precision and in the paper's layout, where a column is a position: X is
d x n, and a context P is n x n with entry (j, i) the weight of key j for query i, so that columns
add up to one. D embedding_size (d), N positions (n), P head_size (d_p), H heads (h).
"""
