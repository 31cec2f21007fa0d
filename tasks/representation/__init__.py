"""Theorem 1: does a head of some size fit any attention pattern?"""
