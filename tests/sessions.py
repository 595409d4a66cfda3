"""Browser sessions without a browser: Streamlit's own protocol over a WebSocket, so that forty of them fit on two cores."""

from __future__ import annotations

import asyncio
from urllib.parse import urlencode

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from tornado.websocket import WebSocketClientConnection, websocket_connect


class Session:
    """One visitor of one page: opens a link, reads what the server shows, presses buttons, lets its timer tick."""

    def __init__(self, address: str, page: str, **params: object) -> None:
        self.address, self.page, self.query = address, page, urlencode({"v": 1, **params})
        self.buttons: dict[str, tuple[str, str]] = {}  # by label: its number, and the part of the page it runs
        self.words: list[str] = []
        self._fragment = self._script = ""
        self._socket: WebSocketClientConnection | None = None

    async def open(self) -> None:
        """Connect and show the page."""
        url = self.address.replace("http", "ws", 1) + "/_stcore/stream"
        self._socket = await websocket_connect(url, max_message_size=2**28, connect_timeout=30)
        await self._run()

    async def press(self, label: str) -> None:
        """Press the button whose label starts so."""
        found = [button for name, button in self.buttons.items() if name.startswith(label)]
        assert found, f"no button {label!r} among {list(self.buttons)}; the page says {self.words}"
        pressed, fragment = found[0]
        await self._run(fragment, pressed)

    async def tick(self) -> None:
        """What the browser's timer does: run the polling part of the page again."""
        await self._run(self._fragment)

    async def until(self, label: str, seconds: float) -> None:
        """Tick, every other second, until there is a button whose label starts so."""
        async with asyncio.timeout(seconds):
            while not any(name.startswith(label) for name in self.buttons):
                await asyncio.sleep(2)
                await self.tick()

    def close(self) -> None:
        """Leave."""
        if self._socket is not None:
            self._socket.close()

    async def _run(self, fragment: str = "", pressed: str = "") -> None:
        message = BackMsg()
        state = message.rerun_script
        state.query_string, state.fragment_id, state.is_auto_rerun = (
            self.query,
            fragment,
            bool(fragment and not pressed),
        )
        if self._script:
            state.page_script_hash = self._script
        else:
            state.page_name = self.page
        if pressed:
            widget = state.widget_states.widgets.add()
            widget.id, widget.trigger_value = pressed, True
        assert self._socket is not None
        await self._socket.write_message(message.SerializeToString(), binary=True)
        async with asyncio.timeout(180):
            while not await self._hear():
                pass

    async def _hear(self) -> bool:
        """Take one message; whether the script has come to its end with it."""
        assert self._socket is not None
        data = await self._socket.read_message()
        assert isinstance(data, bytes), "the server has closed the connection"
        message = ForwardMsg.FromString(data)
        kind = message.WhichOneof("type")
        if kind == "new_session":
            self.buttons, self.words = {}, []
        elif kind == "navigation":  # only now does the server know which page it is
            self._script = message.navigation.page_script_hash
        elif kind == "auto_rerun":
            self._fragment = message.auto_rerun.fragment_id
        elif kind == "delta" and message.delta.WhichOneof("type") == "new_element":
            self._show(message.delta.new_element, message.delta.fragment_id)
        # A button that asks for another run ends one run and begins the next at once.
        return kind == "script_finished" and message.script_finished != ForwardMsg.FINISHED_EARLY_FOR_RERUN

    def _show(self, element, fragment: str) -> None:
        kind = element.WhichOneof("type")
        if kind == "button":
            self.buttons[element.button.label] = element.button.id, fragment
        elif kind in ("markdown", "alert"):
            self.words.append(getattr(element, kind).body)
        elif kind == "progress":
            self.words.append(element.progress.text)
        elif kind == "exception":
            raise AssertionError(f"the page broke: {element.exception.type} {element.exception.message}")
