"""The pages in a real browser: Chromium beside a whole world whose clock the tests move."""
