"""`python -m fedwave` is the same as `fedwave`."""

from fedwave.cli import main

if __name__ == "__main__":
    main()
