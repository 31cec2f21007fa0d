"""How many small heads replace a large one?"""
