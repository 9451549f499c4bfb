"""The cluster for development can be disturbed by hand."""

from cluster.apiserver import __main__ as development


def test_development_cluster_is_installed_and_executes_commands(own_cluster, capsys, monkeypatch):
    monkeypatch.setattr(development, "DIRECTORY", own_cluster.directory)
    development.install(own_cluster)
    development.write_kubeconfigs(own_cluster)
    assert (own_cluster.directory / "operator.json").read_text() != (own_cluster.directory / "admin.json").read_text()
    assert own_cluster.exists("/apis/gateway.networking.k8s.io/v1/gatewayclasses/varnish")

    development.obey(own_cluster, ["kill\n", "pause\n", "compact\n", "start\n", "what\n", "quit\n", "kill\n"])
    assert capsys.readouterr().out.splitlines() == [
        "kill: done",
        "pause: the API server is not running",
        "compact: done",
        "start: done",
        "write one of kill, start, pause, resume, compact, quit",
    ]
    assert own_cluster.exists("/apis/gateway.networking.k8s.io/v1/gatewayclasses/varnish")
