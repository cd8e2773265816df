"""`python -m ajet`."""

from ajet.launcher import main

if __name__ == "__main__":
    main()
