"""Charts of plans, models, searches and studies, as PNG or SVG."""
