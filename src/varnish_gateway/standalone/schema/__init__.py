"""Check documents as an API server would: structure, defaults, CEL rules."""

from varnish_gateway.standalone.schema.catalogue import Catalogue, KindSchema
from varnish_gateway.standalone.schema.problem import FieldPath, FieldProblem, dotted

__all__ = ["Catalogue", "FieldPath", "FieldProblem", "KindSchema", "dotted"]
