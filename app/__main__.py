"""Where `perdure` begins. Nothing is imported yet, so Ctrl-C is heard from here on."""

import sys


def main() -> None:
    try:
        from app.cli import main as perdure

        perdure()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
