"""One process of IMQ: its parts, its loops and its report."""
