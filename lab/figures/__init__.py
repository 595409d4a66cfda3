"""Numbers in, figures out. Nothing here knows of pages; the drawing of the block and the palette load no plotting library."""
