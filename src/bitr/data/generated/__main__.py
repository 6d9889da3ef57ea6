"""``python -m bitr.data.generated`` prints how many pairs a second are made."""

from bitr.data.generated.rate import main

if __name__ == "__main__":  # worker processes import this file, too
    main()
