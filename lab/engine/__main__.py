"""``python -m lab.engine``: the engine process of the cache in ``LAB_CACHE``.

Workers import this module on their way up, so nothing may happen here outside the guard.
"""

if __name__ == "__main__":
    from lab.engine.process import main

    main()
