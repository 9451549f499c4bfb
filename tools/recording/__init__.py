"""The terminal recording of the README: a real session, drawn as an animated SVG."""
