"""A page of somebody else, open in the same browser, that tries all that a page can try."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PAGE = b"<!doctype html><title>evil</title><p>A harmless page."

# Answers what each attempt saw of the service; an opaque or refused answer is "".
ATTEMPTS = """
async ([service, wait, run]) => {
    const saw = {};
    const submit = JSON.stringify({ agent: "desk", input: "evil" });
    const allow = JSON.stringify({ decision: "allow" });
    const paths = { "/v1/runs": submit, [`/v1/waits/${wait}/resolve`]: allow,
                    [`/v1/runs/${run}/cancel`]: "{}" };
    const read = async (name, act) => {
        try { saw[name] = String((await act()) ?? ""); } catch { saw[name] = ""; }
    };
    for (const [path, body] of Object.entries(paths)) {
        for (const type of ["text/plain", "application/x-www-form-urlencoded",
                            "multipart/form-data", "application/json", ""]) {
            for (const mode of ["no-cors", "cors"]) {
                await read(`${mode} ${type} ${path}`, async () => {
                    const headers = type ? { "Content-Type": type } : {};
                    const answer = await fetch(service + path, {
                        method: "POST", mode, credentials: "include", headers, body });
                    return answer.text();
                });
            }
        }
        navigator.sendBeacon(service + path, new Blob([body], { type: "text/plain" }));
        const form = document.createElement("form");
        Object.assign(form, { method: "post", enctype: "text/plain", action: service + path });
        const field = document.createElement("input");
        field.name = body.slice(0, -1) + ', "x": "';
        field.value = '"}';
        form.append(field);
        const frame = document.createElement("iframe");
        frame.name = form.target = `frame${Math.random()}`;
        document.body.append(frame, form);
        const loaded = new Promise((resolve) => frame.addEventListener("load", resolve));
        form.submit();
        await loaded;
        await read(`form ${path}`, () => frame.contentDocument?.body?.textContent);
    }
    for (const path of ["/", "/inbox", `/runs/${run}`, "/v1/runs", "/v1/waits"]) {
        for (const mode of ["no-cors", "cors"]) {
            await read(`${mode} GET ${path}`, async () =>
                (await fetch(service + path, { mode, credentials: "include" })).text());
        }
        const frame = document.createElement("iframe");
        frame.src = service + path;
        const loaded = new Promise((resolve) => frame.addEventListener("load", resolve));
        document.body.append(frame);
        await loaded;
        await read(`iframe ${path}`, () => frame.contentDocument?.body?.textContent);
    }
    await read("stream", () => new Promise((resolve) => {
        const source = new EventSource(`${service}/v1/runs/${run}/events`,
                                       { withCredentials: true });
        source.addEventListener("run.queued", (event) => resolve(event.data));
        source.onerror = () => { source.close(); resolve(""); };
    }));
    await read("script", () => new Promise((resolve) => {
        const script = document.createElement("script");
        script.src = service + "/v1/runs";
        script.onload = () => resolve("loaded");
        script.onerror = () => resolve("");
        document.body.append(script);
    }));
    return saw;
}
"""


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def evil_site() -> Iterator[int]:
    """Its port, on this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
