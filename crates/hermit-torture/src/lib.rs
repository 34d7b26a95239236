//! Runs a real `hermitd` through crashes, and measures what it promises: see the README.
