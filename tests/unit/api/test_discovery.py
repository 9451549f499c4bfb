from varnish_gateway.decoding import decode


def test_slice_names_its_service():
    slice_ = decode(
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["192.0.2.1"], "conditions": {"ready": False}}],
            "ports": [{"name": "http", "port": 8080}],
        }
    )
    assert slice_.service == "web"
    assert slice_.endpoints[0].conditions.ready is False
    assert slice_.ports[0].port == 8080


def test_empty_slice_without_a_service_is_decoded():
    slice_ = decode(
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": "x"},
            "addressType": "IPv6",
            "endpoints": None,
            "ports": None,
        }
    )
    assert slice_.service is None
