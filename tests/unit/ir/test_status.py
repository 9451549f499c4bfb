import msgspec

from varnish_gateway import ir


def test_a_status_has_the_shape_of_kubernetes():
    status = ir.RouteStatus(
        (
            ir.ParentStatus(
                ir.ParentRef("gateway.networking.k8s.io", "Gateway", "gw", section_name="http"),
                "example.com/controller",
                (ir.Condition("Accepted", "True", "Accepted", "", 3),),
            ),
        )
    )
    assert msgspec.json.decode(msgspec.json.encode(status)) == {
        "parents": [
            {
                "parentRef": {
                    "group": "gateway.networking.k8s.io",
                    "kind": "Gateway",
                    "name": "gw",
                    "sectionName": "http",
                },
                "controllerName": "example.com/controller",
                "conditions": [
                    {"type": "Accepted", "status": "True", "reason": "Accepted", "message": "", "observedGeneration": 3}
                ],
            }
        ]
    }
