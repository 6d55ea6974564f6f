"""Share with the holder of one public file: heads sealed for it, and bundles of keys for readers."""
