"""The tree of errors is the one that its docstring draws."""

import inspect
import re

from varnish_gateway import errors


def test_docstring_names_every_error_once():
    drawn = re.findall(r"^[│├└─ ]*([A-Z]\w+)", errors.__doc__.split("``hint``")[0], re.MULTILINE)
    defined = [name for name, _ in inspect.getmembers(errors, inspect.isclass)]
    assert sorted(set(drawn) - {"Every"}) == sorted(defined)


def test_every_error_derives_from_gateway_error():
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)]
    assert all(issubclass(kind, errors.GatewayError) for kind in kinds)
