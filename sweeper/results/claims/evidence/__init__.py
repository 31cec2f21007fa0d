"""The engine that all claims share.

design      contrasts of points, and the statements that combine them
decision    measurements, the evidence on a statement, the decision, its expected cost
verdict     the decision as data and in words
"""
