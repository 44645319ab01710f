"""What operators account for: who changed what (`audit`), and later proof of it. `facade.Governance` is the one to read
first: `Engine.governance`. Imported by doors; imports anything below `engine`, and `engine`.
"""
