"""Check documents as an API server would: structure, defaults, CEL rules."""

from varnish_gateway.standalone.schema.catalogue import Catalogue, KindSchema
from varnish_gateway.standalone.schema.problem import FieldPath, FieldProblem, did_you_mean, dotted

__all__ = ["Catalogue", "FieldPath", "FieldProblem", "KindSchema", "did_you_mean", "dotted"]
