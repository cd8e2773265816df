"""`python -m astuner`."""

from astuner.cli import main

if __name__ == "__main__":
    main()
