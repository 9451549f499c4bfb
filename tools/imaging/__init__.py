"""The parts of build_images.py.

machine   how this machine reaches its package registries
debian    the base, made of Debian's packages
buildah   the builder: its store, its builds, its archives
inputs    what an image is made from, and what it is called
"""
