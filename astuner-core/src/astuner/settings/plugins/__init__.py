"""Which components are installed, from where, and how core loads and calls them."""
