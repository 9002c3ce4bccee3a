# SPDX-License-Identifier: Apache-2.0
"""A client of the Debug Adapter Protocol, written from its specification and from nothing of SPScope: it starts the program, talks
to it over its standard input and output, and holds every message of either side against the schema where that is installed."""

import json
import os
import queue
import subprocess
import threading

import schema as schemas

DEADLINE = 60  # seconds for any one answer: tests run on loaded machines


class Failure(Exception):
    pass


class Client:
    def __init__(self, program, *arguments, check=True, cwd=None):
        environment = dict(os.environ, OMP_NUM_THREADS="1")
        self.process = subprocess.Popen([program, "debug", "--dap", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cwd, env=environment)
        definitions, self.no_schema = schemas.find()
        self.schema = schemas.Schema(definitions) if definitions else None
        self.check, self.seq, self.last = check, 0, 0
        self.inbox, self.events, self.errors = queue.Queue(), [], []
        threading.Thread(target=self.read, daemon=True).start()
        self.stderr = b""
        self.error_reader = threading.Thread(target=self.read_errors, daemon=True)
        self.error_reader.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            try:
                pipe.close()
            except OSError:
                pass

    # --- the wire
    def read_errors(self):
        for line in self.process.stderr:
            self.stderr += line

    def wait_errors(self):
        """Until standard error has ended."""
        self.error_reader.join(DEADLINE)

    def read(self):
        out = self.process.stdout
        try:
            while True:
                length = None
                while True:
                    line = out.readline()
                    if not line:
                        return self.inbox.put(None)
                    if line == b"\r\n":
                        break
                    name, _, value = line.partition(b":")
                    if not line.endswith(b"\r\n") or name.lower() not in (b"content-length", b"content-type"):
                        raise Failure(f"this is no header: {line!r}")
                    if name.lower() == b"content-length":
                        length = int(value)
                body = out.read(length)
                if len(body) != length:
                    raise Failure("the stream ends within a message")
                message = json.loads(body.decode("utf-8"))
                if message["seq"] != self.last + 1:
                    raise Failure(f"seq {message['seq']} after {self.last}")
                self.last = message["seq"]
                self.inbox.put(message)
        except (Failure, ValueError, TypeError, KeyError) as wrong:
            self.errors.append(str(wrong))
            self.inbox.put(None)

    def raw(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, command, arguments=None, **more):
        self.seq += 1
        message = {"seq": self.seq, "type": "request", "command": command}
        if arguments is not None or more:
            message["arguments"] = dict(arguments or {}, **more)
        self.send_message(message)
        return self.seq

    def send_message(self, message):
        if self.check and self.schema and (wrong := self.schema.complaints(message)):
            raise Failure(f"the test's own request: {wrong}")
        body = json.dumps(message).encode()
        self.raw(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    def receive(self, deadline=DEADLINE):
        """The next message; None at the end of the stream."""
        try:
            message = self.inbox.get(timeout=deadline)
        except queue.Empty:
            raise Failure(f"nothing came for {deadline} s; standard error: {self.stderr.decode(errors='replace')[-2000:]}") from None
        if message is None:
            if self.errors:
                raise Failure(self.errors[0])
            return None
        if self.schema and (wrong := self.schema.complaints(message)):
            raise Failure(f"{wrong}: {json.dumps(message)[:1500]}")
        return message

    # --- requests and events
    def wait(self, what):
        """The first message for which `what` holds; events that come before it are kept for event()."""
        while True:
            message = self.receive()
            if message is None:
                raise Failure(f"the program ended; standard error: {self.stderr.decode(errors='replace')[-2000:]}")
            if what(message):
                return message
            if message["type"] == "event":
                self.events.append(message)

    def answer(self, seq):
        return self.wait(lambda m: m["type"] == "response" and m["request_seq"] == seq)

    def ask(self, command, arguments=None, **more):
        """The body of the answer."""
        answer = self.answer(self.send(command, arguments, **more))
        if not answer["success"] or answer["command"] != command:
            raise Failure(json.dumps(answer))
        return answer.get("body", {})

    def refused(self, command, arguments=None, **more):
        """The text of a refusal."""
        answer = self.answer(self.send(command, arguments, **more))
        if answer["success"]:
            raise Failure(f"not refused: {json.dumps(answer)[:500]}")
        return answer["body"]["error"]["variables"]["text"]

    def event(self, name):
        """The body of the first event of that name that has not been asked for yet."""
        for i, message in enumerate(self.events):
            if message["event"] == name:
                return self.events.pop(i).get("body", {})
        return self.wait(lambda m: m["type"] == "event" and m["event"] == name).get("body", {})

    def begin(self, model, breakpoints=(), stop=True, initialize=None, **launch):
        """To where the ranks stand for the first time: breakpoints are (request, arguments)."""
        self.ask("initialize", adapterID="spscope", **(initialize or {}))
        self.ask("launch", dict({"program": model, "stopOnEntry": stop, "threads": 1}, **launch))
        self.event("initialized")
        answers = [self.ask(command, arguments) for command, arguments in breakpoints]
        self.ask("configurationDone")
        return self.event("stopped"), answers

    def go(self, command="continue", **arguments):
        """Runs, and says where it stops."""
        self.ask(command, dict({"threadId": 1}, **arguments))
        return self.event("stopped")

    def end(self):
        self.ask("disconnect")
        if self.receive() is not None:
            raise Failure("something came behind the answer to disconnect")
        return self.process.wait(DEADLINE)
