"""Assemblies for the eye: pictures, films, reports as one HTML page, and the viewer in a browser."""
