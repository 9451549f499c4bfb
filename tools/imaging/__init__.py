"""The parts of build_images.py.

machine   how this machine reaches its package registries
debian    the base, built from Debian packages
buildah   the builder: its store, its builds, its archives
inputs    what an image is built from, and its name
"""
