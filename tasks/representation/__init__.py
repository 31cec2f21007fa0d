"""Theorem 1: can an attention head of a given size represent any attention pattern?"""
