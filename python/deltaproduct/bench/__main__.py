"""python -m deltaproduct.bench"""
from .report import main

main()
