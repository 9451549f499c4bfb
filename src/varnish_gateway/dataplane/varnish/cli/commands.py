"""Every command of varnishd's command line, with typed arguments and answers.

In:   names, paths and values; they are escaped here, so they may hold anything.
Out:  Structs of ``answers``, or the text where varnishd promises no form.
Any other status is a ``CliError`` with varnishd's status code.
"""

from typing import Literal, Self

from varnish_gateway.dataplane.varnish.cli import answers
from varnish_gateway.dataplane.varnish.cli.connection import CliListener
from varnish_gateway.dataplane.varnish.cli.protocol import CliError, CliStatus, ban_words

Temperature = Literal["auto", "cold", "warm"]
AdminHealth = Literal["auto", "healthy", "sick"]
ChildState = Literal["stopped", "starting", "running", "stopping", "died"]

COMMAND_SECONDS = 10.0
COMPILE_SECONDS = 60.0  # vcl.load runs a C compiler
CONNECT_SECONDS = 10.0


class Admin:
    """The command line of the one varnishd that knows ``secret``."""

    def __init__(self, secret: bytes) -> None:
        self._endpoint = CliListener(secret)

    async def listen(self, port: int = 0) -> Self:
        await self._endpoint.open(port)
        return self

    @property
    def port(self) -> int:
        return self._endpoint.port

    def forget(self) -> None:
        """Drop the connection: a new varnishd is about to call."""
        self._endpoint.forget()

    def hang_up(self) -> None:
        """Drop the connection of a varnishd that has exited: commands fail at once, instead of waiting for its call."""
        self._endpoint.hang_up()

    async def close(self) -> None:
        await self._endpoint.close()

    async def connected(self) -> None:
        """Return when varnishd has called and knows the secret."""
        await self._endpoint.connection(CONNECT_SECONDS)

    async def call(self, command: str, *arguments: str, seconds: float = COMMAND_SECONDS) -> str:
        connection = await self._endpoint.connection(CONNECT_SECONDS)
        return await connection.call(command, *arguments, timeout=seconds)

    # -- VCL ---------------------------------------------------------------------------

    async def vcl_load(self, name: str, path: str, state: Temperature = "auto") -> str:
        return await self.call("vcl.load", name, path, state, seconds=COMPILE_SECONDS)

    async def vcl_inline(self, name: str, source: str, state: Temperature = "auto") -> str:
        return await self.call("vcl.inline", name, source, state, seconds=COMPILE_SECONDS)

    async def vcl_use(self, name: str) -> None:
        await self.call("vcl.use", name)

    async def vcl_discard(self, *names: str) -> None:
        await self.call("vcl.discard", *names)

    async def vcl_list(self) -> tuple[answers.VclEntry, ...]:
        return answers.items(await self.call("vcl.list", "-j"), answers.VclEntry)

    async def vcl_show(self, name: str, *, verbose: bool = False) -> str:
        return await self.call("vcl.show", *(["-v"] if verbose else []), name)

    async def vcl_state(self, name: str, state: Temperature) -> None:
        await self.call("vcl.state", name, state)

    async def vcl_label(self, label: str, name: str) -> None:
        await self.call("vcl.label", label, name)

    async def vcl_deps(self) -> tuple[answers.VclDependencies, ...]:
        return answers.items(await self.call("vcl.deps", "-j"), answers.VclDependencies)

    # -- parameters --------------------------------------------------------------------

    async def param_show(self, name: str) -> answers.Parameter:
        return answers.single(await self.call("param.show", "-j", name), answers.Parameter)

    async def param_list(self, *, changed: bool = False) -> tuple[answers.Parameter, ...]:
        return answers.items(await self.call("param.show", "-j", *(["changed"] if changed else [])), answers.Parameter)

    async def param_set(self, name: str, value: str) -> answers.Parameter:
        return answers.single(await self.call("param.set", "-j", name, value), answers.Parameter)

    async def param_reset(self, name: str) -> None:
        await self.call("param.reset", name)

    # -- backends, bans, storage -------------------------------------------------------

    async def backend_list(self, pattern: str = "*", *, probes: bool = False) -> dict[str, answers.BackendEntry]:
        text = await self.call("backend.list", "-j", *(["-p"] if probes else []), pattern)
        return answers.single(text, dict[str, answers.BackendEntry])

    async def backend_set_health(self, pattern: str, health: AdminHealth) -> None:
        await self.call("backend.set_health", pattern, health)

    async def ban(self, *conditions: tuple[str, str, str]) -> None:
        """Ban what meets all conditions: ``ban(("req.url", "~", "^/a"), ("obj.status", "==", "404"))``."""
        await self.call("ban", *ban_words(conditions))

    async def ban_list(self) -> tuple[answers.Ban, ...]:
        return answers.items(await self.call("ban.list", "-j"), answers.Ban)

    async def storage_list(self) -> tuple[answers.StorageDevice, ...]:
        return answers.items(await self.call("storage.list", "-j"), answers.StorageDevice)

    # -- the worker process ------------------------------------------------------------

    async def status(self) -> ChildState:
        state: ChildState = answers.single(await self.call("status", "-j"), ChildState)  # type: ignore[arg-type]
        return state

    async def start(self) -> None:
        await self.call("start", seconds=COMPILE_SECONDS)

    async def stop(self) -> None:
        await self.call("stop")

    async def pid(self) -> answers.Pids:
        return answers.single(await self.call("pid", "-j"), answers.Pids)

    async def listen_addresses(self) -> tuple[answers.ListenAddress, ...]:
        return answers.listen_addresses(await self.call("debug.listen_address"))

    async def panic_show(self) -> str | None:
        """Return the last panic, None if there is none."""
        try:
            return await self.call("panic.show")
        except CliError as error:
            if error.status == CliStatus.CANNOT:
                return None
            raise

    async def panic_clear(self) -> None:
        await self.call("panic.clear")

    # -- certificates, for builds of varnishd that have them ---------------------------

    async def tls_cert_load(self, identity: str, certificate: str, private_key: str | None = None) -> None:
        key = ["-k", private_key] if private_key else []
        await self.call("tls.cert.load", identity, certificate, *key)

    async def tls_cert_discard(self, identity: str) -> None:
        await self.call("tls.cert.discard", identity)

    async def tls_cert_commit(self) -> None:
        await self.call("tls.cert.commit")

    async def tls_cert_rollback(self) -> None:
        await self.call("tls.cert.rollback")

    async def tls_cert_reload(self) -> None:
        await self.call("tls.cert.reload")

    async def tls_cert_list(self) -> tuple[str, ...]:
        return tuple((await self.call("tls.cert.list")).splitlines())

    # -- the command line itself -------------------------------------------------------

    async def ping(self) -> answers.Pong:
        return answers.pong(await self.call("ping"))

    async def banner(self) -> str:
        return await self.call("banner")

    async def help(self) -> tuple[answers.CommandHelp, ...]:
        return answers.items(await self.call("help", "-j"), answers.CommandHelp)

    async def quit(self) -> None:
        """Close this session; varnishd calls again by itself."""
        try:
            await self.call("quit")
        except CliError as error:
            if error.status != CliStatus.CLOSE:
                raise
        self.forget()
