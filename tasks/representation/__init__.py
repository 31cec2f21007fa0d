"""An experiment on Theorem 1: can a head of a given size represent any attention pattern?"""
