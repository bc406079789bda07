"""Attacks the suite: stops its commands at random points, and checks what they leave."""
